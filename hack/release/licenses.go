package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

const licensesName = "THIRD_PARTY_LICENSES"

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying)([-_.].*)?$`)

// thirdParty returns the modules of programs, without double ones.
func thirdParty(programs []program) (modules []module.Version) {
	for _, p := range programs {
		for _, m := range p.info.Deps {
			modules = append(modules, versionOf(m))
		}
	}
	module.Sort(modules)
	return slices.Compact(modules)
}

// versionOf returns the module that the compiler took.
func versionOf(m *debug.Module) module.Version {
	if m.Replace != nil {
		m = m.Replace
	}
	return module.Version{Path: m.Path, Version: m.Version}
}

// licenses returns the text of the licenses and notices of Go and of modules, each text once. It reads them from the module cache,
// where the compiler found the modules.
func (r *release) licenses(ctx context.Context, modules []module.Version) ([]byte, error) {
	folders, err := output(ctx, r.root, "go", "env", "GOROOT", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	goRoot, cache, _ := strings.Cut(folders, "\n")
	goLicense, err := os.ReadFile(filepath.Join(goRoot, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("the license of Go: %w", err)
	}
	texts := []string{string(goLicense)} // in the order in which they appear
	users := map[string][]string{texts[0]: {"Go"}}
	for _, m := range modules {
		files, err := r.licenseFiles(cache, m)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text := string(f.content)
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], fmt.Sprintf("%s %s: %s", m.Path, m.Version, f.name))
		}
	}
	var all bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&all, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimSpace(text))
	}
	return all.Bytes(), nil
}

// licenseFiles returns the licenses and notices in a module, those of code that was copied into it included.
func (r *release) licenseFiles(cache string, m module.Version) (files []entry, err error) {
	if files, ok := r.licenseCache[m]; ok {
		return files, nil
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return nil, err
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, filepath.FromSlash(path)+"@"+version)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// Neither is in a program: what a module's tests read, and copies of other modules and of their licenses.
			if slices.Contains([]string{"testdata", "vendor", "LICENSES"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !licenseFile.MatchString(d.Name()) || filepath.Ext(d.Name()) == ".go" {
			return nil
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		files = append(files, entry{name: filepath.ToSlash(name), content: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the license of %s %s: %w", m.Path, m.Version, err)
	}
	if len(files) == 0 {
		return nil, errors.New(
			m.Path + " " + m.Version + " has no file LICENSE, NOTICE or COPYING: programs with it cannot be distributed",
		)
	}
	if r.licenseCache == nil {
		r.licenseCache = map[module.Version][]entry{}
	}
	r.licenseCache[m] = files
	return files, nil
}
