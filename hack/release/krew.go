package main

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var uri = regexp.MustCompile(`(?m)^    uri: (\S+)$`)

// writeKrewManifest completes the manifest of kubectl-plimsoll for krew by the version and the checksums of the archives. Platforms
// that were not built are left out.
func (r *release) writeKrewManifest() error {
	text, err := os.ReadFile(filepath.Join(r.root, "manifests", "krew", "plimsoll.yaml"))
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAll(text, nil)
	// Each platform begins with its selector.
	parts := strings.SplitAfter(strings.ReplaceAll(string(text), "  - selector:", "\x00  - selector:"), "\x00")
	var manifest strings.Builder
	for _, part := range parts {
		part = strings.ReplaceAll(strings.TrimSuffix(part, "\x00"), "VERSION", r.version)
		if match := uri.FindStringSubmatch(part); match != nil {
			sum, err := sha256File(filepath.Join(r.out, path.Base(match[1])))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			part = strings.ReplaceAll(part, "SHA256", sum)
		}
		manifest.WriteString(part)
	}
	return r.writeFile("krew.yaml", []byte(manifest.String()))
}
