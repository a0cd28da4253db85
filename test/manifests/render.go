package manifests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Helm runs helm on the chart of this repository.
type Helm struct {
	binary, chart string
	home          string
}

// NewHelm returns the Helm in bin/ of the repository's root. home is a folder that Helm may write to.
func NewHelm(root, home string) Helm {
	return Helm{binary: filepath.Join(root, "bin", "helm"), chart: filepath.Join(root, "manifests", "chart"), home: home}
}

// Template returns the manifests of a release as YAML. values is a YAML document; flags are those of helm template.
func (h Helm) Template(ctx context.Context, release, namespace, values string, flags ...string) ([]byte, error) {
	return h.run(ctx, values, append([]string{"template", release, h.chart, "--namespace", namespace, "--values", "-"}, flags...)...)
}

// Lint lints the chart with the given values.
func (h Helm) Lint(ctx context.Context, values string) error {
	_, err := h.run(ctx, values, "lint", h.chart, "--strict", "--values", "-")
	return err
}

// Release runs a command in the cluster of a kubeconfig, such as install, the release and flags. values is a YAML document for
// commands that install the chart; other commands ignore it.
func (h Helm) Release(ctx context.Context, kubeconfig, namespace, values string, command ...string) ([]byte, error) {
	args := append(command, "--kubeconfig", kubeconfig, "--namespace", namespace)
	if command[0] == "install" || command[0] == "upgrade" {
		args = slices.Insert(args, 2, h.chart, "--values", "-") // behind the command and the release
	}
	return h.run(ctx, values, args...)
}

// run returns helm's stdout. An error holds all its output.
func (h Helm) run(ctx context.Context, values string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.binary, args...)
	// Keeps a developer's own settings of Helm out.
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home, "HELM_CACHE_HOME="+h.home)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(values), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w\n%s%s", args[0], err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// Objects returns the objects of a YAML stream. Duplicate keys are errors.
func Objects(stream []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("splitting YAML: %w", err)
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("document %d: %w", len(objects), err)
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}
