package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// notManifests are the folders of manifests/ that are files of their own in a release, and the package for programs.
var notManifests = []string{"chart", "krew", "manifests.go"}

// renderManifests writes the manifests for a minor version of Kubernetes, with the image by digest. The manifests of kubectl apply
// get their own file, and all are in an archive.
func (r *release) renderManifests(ctx context.Context, minor, chart, digest string) error {
	dir := filepath.Join(r.work, "manifests", minor)
	// What is not rendered, such as the READMEs, is as the commit has it.
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.root, "manifests"))); err != nil {
		return err
	}
	for _, name := range notManifests {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := r.command(ctx, []string{"CHART=" + chart, "DIGEST=" + digest, "MINOR=" + minor}, "hack/render.sh", dir); err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(dir, "second-scheduler.yaml"))
	if err != nil {
		return err
	}
	if err := r.writeFile(fmt.Sprintf("second-scheduler-k8s%s.yaml", minor), second); err != nil {
		return err
	}
	entries, err := folderEntries(dir)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("manifests_%s_k8s%s", r.version, minor)
	for i := range entries {
		entries[i].name = path.Join(name, entries[i].name)
	}
	return writeTarGz(filepath.Join(r.out, name+".tar.gz"), r.time, entries)
}
