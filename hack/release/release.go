package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const (
	schedulerProgram   = "kube-scheduler"
	loadWatcherProgram = "load-watcher"
	rebalancerProgram  = "rebalancer"
	kubectlProgram     = "kubectl-plimsoll"
	checksums          = "checksums.txt"
	// completion is the script that kubectl runs to complete arguments of kubectl plimsoll.
	completion = "kubectl_complete-plimsoll"
)

type platform struct{ os, arch string }

type program struct {
	platform
	name   string
	path   string
	sha256 string // in hexadecimal digits
	info   *buildinfo.BuildInfo
}

type release struct {
	repository string // folder of the repository
	version    string // such as v1.2.3
	minors     []string
	platforms  []platform
	notes      string
	commit     string
	time       time.Time // of the commit, and so of all files in archives
	pgo        string    // make build's PGO

	out  string // folder of the release
	work string // folder of what is removed at the end
	root string // folder of the commit's files, below work

	licenseCache map[module.Version][]entry // what licenseFiles returned
}

// newRelease returns the release of the commit that is checked out. It fails if there can be none.
func newRelease(ctx context.Context, repository, version string, minors, platforms []string) (*release, error) {
	if version == "" || semver.Canonical(version) != version {
		return nil, fmt.Errorf("VERSION is %q, but must be a semantic version with a v: set VERSION=v1.2.3 or VERSION=v1.2.3-rc.1",
			version)
	}
	changes, err := output(ctx, repository, "git", "status", "--porcelain", "--untracked-files=all")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		return nil, fmt.Errorf("a release is made of a commit, but the working tree has changes: commit or remove them\n%s", changes)
	}
	commit, err := output(ctx, repository, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	if err := checkChart(repository, version); err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(filepath.Join(repository, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	notes, err := releaseNotes(string(changelog), version)
	if err != nil {
		return nil, err
	}
	date, err := output(ctx, repository, "git", "show", "--no-patch", "--format=%cI", commit)
	if err != nil {
		return nil, err
	}
	committed, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return nil, err
	}
	r := &release{repository: repository, version: version, notes: notes, commit: commit, time: committed.UTC()}
	if err := r.setMinors(minors); err != nil {
		return nil, err
	}
	return r, r.setPlatforms(ctx, platforms)
}

// checkChart fails if the chart has another version than the release, because then what the repository says installs other images.
func checkChart(repository, version string) error {
	chart, err := os.ReadFile(filepath.Join(repository, "manifests", "chart", "Chart.yaml"))
	if err != nil {
		return err
	}
	for _, want := range []string{"version: " + version[1:], "appVersion: " + version} {
		field, _, _ := strings.Cut(want, ":")
		if line := regexp.MustCompile(`(?m)^` + field + `:.*$`).FindString(string(chart)); line != want {
			return fmt.Errorf(
				"VERSION is %q, so manifests/chart/Chart.yaml must have %q, but has %q: run hack/set-version.sh %s and commit what it "+
					"changes, or set VERSION to the version of the chart",
				version,
				want,
				line,
				version[1:],
			)
		}
	}
	return nil
}

// setMinors sets the minor versions of Kubernetes, from the oldest to the newest. The repository must have a go.mod for each.
func (r *release) setMinors(minors []string) error {
	files, err := filepath.Glob(filepath.Join(r.repository, "hack", "kubernetes", "*", "go.mod"))
	if err != nil {
		return err
	}
	var known []string
	for _, file := range append(files, filepath.Join(r.repository, "go.mod")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mod, err := modfile.ParseLax(file, text, nil)
		if err != nil {
			return err
		}
		for _, require := range mod.Require {
			if require.Mod.Path == "k8s.io/kubernetes" {
				known = append(known, strings.TrimPrefix(semver.MajorMinor(require.Mod.Version), "v"))
			}
		}
	}
	if err := checkNames("KUBERNETES_MINORS", minors, known); err != nil {
		return err
	}
	r.minors = slices.Clone(minors)
	slices.SortFunc(r.minors, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
	return nil
}

// setPlatforms sets the platforms. One must be of Linux.
func (r *release) setPlatforms(ctx context.Context, platforms []string) error {
	known, err := output(ctx, r.repository, "go", "tool", "dist", "list")
	if err != nil {
		return err
	}
	if err := checkNames("PLATFORMS", platforms, strings.Fields(known)); err != nil {
		return err
	}
	for _, p := range platforms {
		os, arch, _ := strings.Cut(p, "/")
		r.platforms = append(r.platforms, platform{os, arch})
	}
	if len(r.linux()) == 0 {
		return fmt.Errorf("PLATFORMS is %q, but must name a platform of Linux, such as linux/amd64", platforms)
	}
	return nil
}

// checkNames fails if names is empty, or has one twice or one that is not known.
func checkNames(variable string, names, known []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%s is empty, but must name some of %s", variable, strings.Join(known, " "))
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s has %q, but must name some of %s", variable, name, strings.Join(known, " "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s has %s twice: name it once", variable, name)
		}
	}
	return nil
}

func (r *release) linux() []platform {
	return slices.DeleteFunc(slices.Clone(r.platforms), func(p platform) bool { return p.os != "linux" })
}

func (r *release) newest() string { return r.minors[len(r.minors)-1] }

// make writes the release to a folder that is missing or empty, or holds another release, which it replaces.
func (r *release) make(ctx context.Context, out string) (err error) {
	old, err := releaseFiles(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// In the folder itself, so that they can be moved at the end.
	if r.out, err = os.MkdirTemp(out, "unfinished-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.out)) }()
	if r.work, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := r.exportCommit(ctx); err != nil {
		return err
	}
	if err := r.writeFiles(ctx); err != nil {
		return err
	}
	if err := r.replace(out, old); err != nil {
		return err
	}
	fmt.Println(filepath.Join(out, checksums))
	return nil
}

// exportCommit writes the files of the commit to a folder that becomes r.root. So a release excludes untracked and ignored files.
// It also excludes a commit that is checked out meanwhile.
func (r *release) exportCommit(ctx context.Context) error {
	r.root = filepath.Join(r.work, "source")
	archive := r.root + ".tar"
	if _, err := output(ctx, r.repository, "git", "-c", "core.autocrlf=false", "-c", "core.attributesFile=",
		"archive", "--format=tar", "--output="+archive, r.commit); err != nil {
		return err
	}
	if err := os.Mkdir(r.root, 0o755); err != nil {
		return err
	}
	if err := unpackTar(archive, r.root); err != nil {
		return err
	}
	// Helm takes minutes to build, so that it stays where make leaves it.
	bin := filepath.Join(r.repository, "bin")
	return errors.Join(os.MkdirAll(bin, 0o755), os.Symlink(bin, filepath.Join(r.root, "bin")))
}

func (r *release) writeFiles(ctx context.Context) error {
	chart, err := r.packageChart(ctx)
	if err != nil {
		return err
	}
	var images strings.Builder
	for _, minor := range r.minors {
		digest, err := r.makeMinor(ctx, minor, chart)
		if err != nil {
			return fmt.Errorf("minor version %s of Kubernetes: %w", minor, err)
		}
		fmt.Fprintf(&images, "%s  %s:%s\n", digest.Hex, imageName, r.tag(minor))
	}
	image, err := newChartImage(chart)
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(&images, "%s  %s:%s\n", digest.Hex, chartName, strings.TrimPrefix(r.version, "v"))
	if err := r.writeFile("release-notes.md", []byte(r.notes+imageNotes(images.String()))); err != nil {
		return err
	}
	if err := r.writeFile(imageList, []byte(images.String())); err != nil {
		return err
	}
	if err := r.writeKrewManifest(); err != nil {
		return err
	}
	return r.writeChecksums()
}

// releaseFiles returns the names of the files of the release that a folder holds, checksums.txt first. It fails if the folder holds
// anything else.
func releaseFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || len(entries) == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	known := append(listed(sums), checksums)
	if !slices.Contains(known, imageList) {
		return nil, fmt.Errorf("%s has files, but is not of a release: remove it, or set DIST to another folder", dir)
	}
	names = []string{checksums}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) || !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s has %s, which is not of the release there: remove it, or set DIST to another folder", dir, e.Name())
		}
		if e.Name() != checksums {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func listed(sums []byte) (names []string) {
	for line := range strings.Lines(string(sums)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
	}
	return names
}

// replace moves the files of the release to a folder, in place of the old ones. A folder with checksums.txt holds a whole release.
func (r *release) replace(out string, old []string) error {
	for _, name := range old {
		if err := os.Remove(filepath.Join(out, name)); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(r.out, checksums))
	if err != nil {
		return err
	}
	for _, name := range append(listed(sums), checksums) {
		if err := os.Rename(filepath.Join(r.out, name), filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) makeMinor(ctx context.Context, minor, chart string) (digest v1.Hash, err error) {
	programs, err := r.buildMinor(ctx, minor)
	if err != nil {
		return digest, err
	}
	defer func() {
		for _, p := range programs {
			err = errors.Join(err, os.Remove(p.path)) // those of all minors together take gigabytes
		}
	}()
	if digest, err = r.writeImage(ctx, minor, programs); err != nil {
		return digest, err
	}
	if err := r.writeSBOM(imageArchive(r.tag(minor)), imageComponent(r.tag(minor), digest.String()), programs); err != nil {
		return digest, err
	}
	return digest, r.renderManifests(ctx, minor, chart, digest.String())
}

// buildMinor builds the programs of a minor version of Kubernetes, and writes their archives and SBOMs. It returns the
// programs of the image.
func (r *release) buildMinor(ctx context.Context, minor string) (programs []program, err error) {
	platforms := r.linux()
	if minor == r.newest() {
		platforms = r.platforms
	}
	for _, p := range platforms {
		names := []string{kubectlProgram}
		if p.os == "linux" {
			names = []string{schedulerProgram, loadWatcherProgram, rebalancerProgram, kubectlProgram}
		}
		built, err := r.build(ctx, minor, p, names)
		if err != nil {
			return nil, err
		}
		if p.os == "linux" {
			programs = append(programs, built...)
			if err := r.writeArchive(ctx, fmt.Sprintf("plimsoll_%s_k8s%s_%s_%s", r.version, minor, p.os, p.arch), built[:3]); err != nil {
				return nil, err
			}
			for _, server := range built[:3] {
				name := fmt.Sprintf("%s_%s_k8s%s_%s_%s", server.name, r.version, minor, p.os, p.arch)
				if err := r.writeSBOM(name, r.programComponent(server), []program{server}); err != nil {
					return nil, err
				}
			}
		}
		if minor == r.newest() {
			kubectl := built[len(built)-1]
			name := fmt.Sprintf("%s_%s_%s_%s", kubectlProgram, r.version, p.os, p.arch)
			if err := r.writeArchive(ctx, name, []program{kubectl}); err != nil {
				return nil, err
			}
			if err := r.writeSBOM(name, r.programComponent(kubectl), []program{kubectl}); err != nil {
				return nil, err
			}
		}
	}
	return programs, nil
}

func (r *release) build(ctx context.Context, minor string, p platform, names []string) ([]program, error) {
	fmt.Fprintf(os.Stderr, "== building %s for %s/%s, Kubernetes %s\n", strings.Join(names, ", "), p.os, p.arch, minor)
	dir := filepath.Join(r.work, minor, p.os, p.arch)
	packages := make([]string, len(names))
	for i, name := range names {
		packages[i] = "./cmd/" + name
	}
	// What a developer has set must not change the programs, and neither must the make that runs this.
	env := []string{
		"GOOS=" + p.os, "GOARCH=" + p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOEXPERIMENT=", "GOFIPS140=off",
		"GOFLAGS=", "GOWORK=off", "MAKEFLAGS=", "MAKEOVERRIDES=", "MFLAGS=",
	}
	if err := r.command(ctx, env, "make", "-s", "build", "VERSION="+r.version, "KUBERNETES="+minor, "PGO="+r.pgo,
		"PROGRAMS="+strings.Join(packages, " "), "BIN="+dir+"/"); err != nil {
		return nil, err
	}
	var programs []program
	for _, name := range names {
		path := filepath.Join(dir, name)
		if p.os == "windows" {
			path += ".exe"
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		sum, err := sha256File(path)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program{platform: p, name: name, path: path, sha256: sum, info: info})
	}
	return programs, nil
}

func (r *release) writeArchive(ctx context.Context, name string, programs []program) error {
	licenses, err := r.licenses(ctx, thirdParty(programs))
	if err != nil {
		return err
	}
	entries := []entry{{name: "LICENSE", source: filepath.Join(r.root, "LICENSE")}, {name: licensesName, content: licenses}}
	for _, p := range programs {
		entries = append(entries, entry{name: filepath.Base(p.path), source: p.path, executable: true})
		if p.name == kubectlProgram && p.os != "windows" {
			entries = append(entries,
				entry{name: completion, source: filepath.Join(r.root, "manifests", "krew", completion), executable: true})
		}
	}
	return writeTarGz(filepath.Join(r.out, name+".tar.gz"), r.time, entries)
}

func (r *release) writeFile(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// writeChecksums writes the checksums of all files, as sha256sum does.
func (r *release) writeChecksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, file := range files {
		sum, err := sha256File(filepath.Join(r.out, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, file.Name())
	}
	return r.writeFile(checksums, lines.Bytes())
}

func sha256File(path string) (_ string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
