package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

const (
	// chartName is the name of the chart in a registry. Helm wants the chart's own name at the end.
	chartName = "ghcr.io/plimsoll-scheduler/charts/plimsoll"
	// The types of a chart in a registry: https://helm.sh/docs/topics/registries.
	chartConfigType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartArchive returns the name of the chart's file.
func chartArchive(version string) string {
	return fmt.Sprintf("plimsoll-%s.tgz", strings.TrimPrefix(version, "v"))
}

func (r *release) packageChart(ctx context.Context) (string, error) {
	if err := r.command(ctx, []string{"KUBERNETES="}, "hack/parts.sh", "helm"); err != nil {
		return "", err
	}
	if err := r.markPrerelease(); err != nil {
		return "", err
	}
	// Neither plugins nor settings of the developer's Helm may change the result.
	env := []string{"HELM_CONFIG_HOME=" + r.work, "HELM_DATA_HOME=" + r.work, "HELM_CACHE_HOME=" + r.work}
	if err := r.command(ctx, env, "bin/helm", "package", "manifests/chart", "--destination", r.work,
		"--version", strings.TrimPrefix(r.version, "v"), "--app-version", r.version); err != nil {
		return "", err
	}
	name := chartArchive(r.version)
	// Helm writes the present time into the package.
	entries, err := readTarGz(filepath.Join(r.work, name))
	if err != nil {
		return "", err
	}
	chart := filepath.Join(r.out, name)
	return chart, writeTarGz(chart, r.time, entries)
}

// markPrerelease makes the chart say so if it is of a pre-release.
func (r *release) markPrerelease() error {
	if semver.Prerelease(r.version) == "" {
		return nil
	}
	file := filepath.Join(r.root, "manifests", "chart", "Chart.yaml")
	chart, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const annotation = "artifacthub.io/prerelease: "
	marked := strings.Replace(string(chart), annotation+`"false"`, annotation+`"true"`, 1)
	if marked == string(chart) {
		return fmt.Errorf("manifests/chart/Chart.yaml has no annotation %s\"false\"", annotation)
	}
	return os.WriteFile(file, []byte(marked), 0o644)
}

// chartImage is a chart as helm push makes it. The configuration is Chart.yaml, and the only layer is the package. The annotations
// are those of Chart.yaml. It lacks the time of the push, and has the license too.
type chartImage struct {
	config, manifest []byte
	content          v1.Layer
}

// newChartImage returns the chart of a package. The same package has the same digest.
func newChartImage(archive string) (v1.Image, error) {
	content, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	files, err := readTarGz(archive)
	if err != nil {
		return nil, err
	}
	const name = "plimsoll/Chart.yaml"
	i := slices.IndexFunc(files, func(e entry) bool { return e.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s has no %s", archive, name)
	}
	var chart chartMetadata
	if err := yaml.Unmarshal(files[i].content, &chart); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, archive, err)
	}
	config, err := yaml.YAMLToJSON(files[i].content)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, archive, err)
	}

	c := chartImage{config: config, content: static.NewLayer(content, chartContentType)}
	configDescriptor, err := partial.Descriptor(static.NewLayer(config, chartConfigType))
	if err != nil {
		return nil, err
	}
	contentDescriptor, err := partial.Descriptor(c.content)
	if err != nil {
		return nil, err
	}
	c.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: *configDescriptor, Layers: []v1.Descriptor{*contentDescriptor},
		Annotations: chart.imageAnnotations(),
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(c)
}

type chartMetadata struct {
	Name, Version, Description, Home string
	Sources                          []string
	Maintainers                      []struct{ Name string }
	Annotations                      map[string]string
}

func (c *chartMetadata) imageAnnotations() map[string]string {
	var authors []string
	for _, m := range c.Maintainers {
		authors = append(authors, m.Name)
	}
	annotations := map[string]string{
		"org.opencontainers.image.title":       c.Name,
		"org.opencontainers.image.version":     c.Version,
		"org.opencontainers.image.description": c.Description,
		"org.opencontainers.image.url":         c.Home,
		"org.opencontainers.image.source":      strings.Join(c.Sources[:min(1, len(c.Sources))], ""),
		"org.opencontainers.image.authors":     strings.Join(authors, ", "),
		"org.opencontainers.image.licenses":    c.Annotations["artifacthub.io/license"],
	}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	maps.Copy(annotations, c.Annotations)
	return annotations
}

// RawConfigFile implements partial.CompressedImageCore.
func (c chartImage) RawConfigFile() ([]byte, error) { return c.config, nil }

// RawManifest implements partial.CompressedImageCore.
func (c chartImage) RawManifest() ([]byte, error) { return c.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (chartImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (c chartImage) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return c.content, nil }
