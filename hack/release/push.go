package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// artifact is what push pushes: an image or the chart.
type artifact struct {
	tag     name.Tag
	digest  v1.Hash
	content remote.Taggable
}

// push pushes the images and the chart of the release in a folder with the credentials of docker login, and prints each name with
// its digest. Nothing is pushed if an image or the chart cannot be read, or differs from the release's digest. Because a tag never
// moves, nothing is pushed either if the registry has one of the tags with another digest.
func push(ctx context.Context, dir string) error {
	work, err := os.MkdirTemp("", "push-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	artifacts, err := readArtifacts(dir, work)
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		if err := a.check(ctx); err != nil {
			return err
		}
	}
	for _, a := range artifacts {
		if err := remote.Push(a.tag, a.content, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("pushing %s: %w%s", a.tag, err, loginHint(err, a.tag))
		}
		fmt.Println(a.tag.Context().Digest(a.digest.String()))
	}
	return nil
}

func readArtifacts(dir, work string) ([]artifact, error) {
	list, err := os.ReadFile(filepath.Join(dir, imageList))
	if err != nil {
		return nil, fmt.Errorf("DIST=%s holds no release: run make release first: %w", dir, err)
	}
	var all []artifact
	for line := range strings.Lines(string(list)) {
		a, err := readArtifact(dir, work, strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", imageList, len(all)+1, err)
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no image: make the release again", filepath.Join(dir, imageList))
	}
	return all, nil
}

func readArtifact(dir, work, line string) (artifact, error) {
	hex, image, _ := strings.Cut(line, "  ")
	digest, err := v1.NewHash("sha256:" + hex)
	if err != nil {
		return artifact{}, fmt.Errorf("%q does not begin with a SHA-256 sum: %w: make the release again", line, err)
	}
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return artifact{}, fmt.Errorf("%q does not name an image after the sum: %w: make the release again", line, err)
	}
	if strings.HasSuffix(tag.RepositoryStr(), "/charts/plimsoll") { // in any registry
		archive := chartArchive(tag.TagStr())
		chart, err := newChartImage(filepath.Join(dir, archive))
		if err != nil {
			return artifact{}, err
		}
		got, err := chart.Digest()
		if err != nil {
			return artifact{}, err
		}
		if got != digest {
			return artifact{}, fmt.Errorf("%s has the digest %s, not %s: make the release again", archive, got, digest)
		}
		return artifact{tag, digest, chart}, nil
	}
	archive := imageArchive(tag.TagStr()) + ".tar"
	unpacked, err := os.MkdirTemp(work, "")
	if err != nil {
		return artifact{}, err
	}
	if err := unpackTar(filepath.Join(dir, archive), unpacked); err != nil {
		return artifact{}, err
	}
	images, err := layout.ImageIndexFromPath(unpacked)
	if err != nil {
		return artifact{}, fmt.Errorf("%s: %w", archive, err)
	}
	index, err := images.ImageIndex(digest)
	if err != nil {
		return artifact{}, fmt.Errorf("%s has no image of the digest %s: %w: make the release again", archive, digest, err)
	}
	return artifact{tag, digest, index}, nil
}

// check fails if the registry has the tag with another digest.
func (a artifact) check(ctx context.Context) error {
	has, err := remote.Head(a.tag, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	// GHCR answers 403 for a package that does not exist yet. Credentials that can push to an existing package can also read it.
	if is(err, http.StatusNotFound) || is(err, http.StatusForbidden) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the digest of %s: %w%s", a.tag, err, loginHint(err, a.tag))
	}
	if has.Digest != a.digest {
		return fmt.Errorf(
			"the registry has %s already, with the digest %s, but the release has %s: release the next version",
			a.tag,
			has.Digest,
			a.digest,
		)
	}
	return nil
}

// is returns whether an error is a registry's response with a status.
func is(err error, status int) bool {
	var failed *transport.Error
	return errors.As(err, &failed) && failed.StatusCode == status
}

// loginHint says what to do if a registry has refused the credentials.
func loginHint(err error, tag name.Tag) string {
	if !is(err, http.StatusUnauthorized) && !is(err, http.StatusForbidden) {
		return ""
	}
	return fmt.Sprintf(": run docker login %s as someone who may push there", tag.RegistryStr())
}
