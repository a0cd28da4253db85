package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"golang.org/x/mod/module"
)

const (
	source = "https://github.com/plimsoll-scheduler/plimsoll"
	// imageName is the name of the image, as the chart has it.
	imageName = "ghcr.io/plimsoll-scheduler/plimsoll"
	// imageList names the file with digest and name of each image and of the chart, in the form of sha256sum.
	imageList = "images.txt"
)

// tag returns the tag of a minor version's image, such as 1.2.3-k8s1.37.
func (r *release) tag(minor string) string {
	return fmt.Sprintf("%s-k8s%s", strings.TrimPrefix(r.version, "v"), minor)
}

// imageArchive returns the name of an image's file, without its extension.
func imageArchive(tag string) string { return "plimsoll-" + tag }

// writeImage writes the image of all platforms, a tar of an OCI image layout. It returns the digest of the image's index.
func (r *release) writeImage(ctx context.Context, minor string, programs []program) (digest v1.Hash, err error) {
	index, err := r.index(ctx, minor, programs)
	if err != nil {
		return digest, err
	}
	folder, err := layout.Write(filepath.Join(r.work, "layout", minor), empty.Index)
	if err != nil {
		return digest, err
	}
	tag := r.tag(minor)
	err = folder.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          imageName + ":" + tag, // for ctr images import
	}))
	if err != nil {
		return digest, err
	}
	entries, err := folderEntries(string(folder))
	if err != nil {
		return digest, err
	}
	err = create(filepath.Join(r.out, imageArchive(tag)+".tar"), func(w io.Writer) error { return writeTar(w, r.time, entries) })
	if err != nil {
		return digest, err
	}
	return index.Digest()
}

func (r *release) index(ctx context.Context, minor string, programs []program) (v1.ImageIndex, error) {
	shared, err := r.layer("shared", []entry{
		{name: "etc/ssl/certs/ca-certificates.crt", content: certificates()},
		{name: "licenses/LICENSE", source: filepath.Join(r.root, "LICENSE")},
	})
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.linux() {
		var built []program
		for _, program := range programs {
			if program.platform == p {
				built = append(built, program)
			}
		}
		own, err := r.programLayer(ctx, minor+"_"+p.arch, built)
		if err != nil {
			return nil, err
		}
		image, err := r.image(p, shared, own)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	return index, nil
}

func (r *release) programLayer(ctx context.Context, name string, programs []program) (v1.Layer, error) {
	modules := append(thirdParty(programs), certificatesVersion())
	module.Sort(modules)
	licenses, err := r.licenses(ctx, slices.Compact(modules))
	if err != nil {
		return nil, err
	}
	entries := []entry{{name: "licenses/" + licensesName, content: licenses}}
	for _, p := range programs {
		entries = append(entries, entry{name: "bin/" + p.name, source: p.path, executable: true})
	}
	return r.layer(name, entries)
}

func (r *release) layer(name string, entries []entry) (v1.Layer, error) {
	file := filepath.Join(r.work, "layer_"+name+".tar.gz")
	if err := writeTarGz(file, r.time, entries); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
}

// image returns the image of a platform. The Dockerfile says the same of user, entrypoint and labels.
func (r *release) image(p platform, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch,
		Created: v1.Time{Time: r.time},
		RootFS:  v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       "65532:65532",
			Entrypoint: []string{"/bin/kube-scheduler"},
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       "Plimsoll",
				"org.opencontainers.image.description": "A kube-scheduler that places pods by the load nodes really carry",
				"org.opencontainers.image.url":         source,
				"org.opencontainers.image.source":      source,
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     r.version,
				"org.opencontainers.image.revision":    r.commit,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"},
		})
		if err != nil {
			return nil, err
		}
	}
	return image, nil
}

// certificates returns the certificates of public authorities in Mozilla's list, in PEM. It leaves out those with constraints
// that a certificate cannot express, because nobody would check them.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return text.Bytes()
}
