package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const secretConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://user:PASSWORD@extender.example
  filterVerb: "https://user:PASSWORD%@not-a-url"
  tlsConfig: {keyData: S0VZ}
profiles: # a comment
- schedulerName: one
  pluginConfig:
  - name: Any
    args: {metricProvider: {type: SignalFx, Token: TOKEN, tokenFile: /run/token, applicationKey: KEY}}
`

func TestOrigin(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "scheduler.yaml")
	if err := os.WriteFile(file, []byte(secretConfiguration), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Selection{Scenario: "base", Seeds: 2, Nodes: 1, Configs: []string{file}}
	flags := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	flags.StringSlice("config", nil, "")
	flags.String("prometheus", "", "")
	flags.String("html", "", "")
	flags.Int("seeds", 1, "")
	if err := flags.Parse([]string{"--prometheus=http://u:PASSWORD@p:9090", "--config=a,b", "--html=it's here.html"}); err != nil {
		t.Fatal(err)
	}
	replays, err := s.ReadInputs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	origin, err := s.Origin(t.Context(), replays[0], "v1", made, flags)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC); !origin.Made.Equal(want) || origin.Version != "v1" {
		t.Errorf("made %v by %q, want %v by v1", origin.Made, origin.Version, want)
	}
	// Flags that were given, by name; a quote in a word is ended, escaped, and begun again.
	want := `kubectl plimsoll replay --config=a,b --html='it'\''s here.html' --prometheus=http://u:xxxxx@p:9090`
	if origin.Command != want {
		t.Errorf("command %s, want %s", origin.Command, want)
	}
	// The checksum is that of the saved file.
	saved := filepath.Join(folder, "saved.jsonl")
	if err := input.Save(saved, replays[0].Inputs[1]); err != nil {
		t.Fatal(err)
	}
	if got, want := origin.Inputs[1].SHA256, checksum(t, saved); len(origin.Inputs) != 2 || got != want {
		t.Errorf("%d inputs, the second with checksum %s, want 2, and %s", len(origin.Inputs), got, want)
	}
	c := origin.Configurations[0]
	if c.File != "scheduler.yaml" || c.SHA256 != checksum(t, file) {
		t.Errorf("configuration %s with checksum %s, want scheduler.yaml, and %s", c.File, c.SHA256, checksum(t, file))
	}
	for _, secret := range []string{"PASSWORD", "TOKEN", "S0VZ", "KEY", "comment"} {
		if strings.Contains(c.Text, secret) {
			t.Errorf("%q is in the configuration:\n%s", secret, c.Text)
		}
	}
	for _, part := range []string{"tokenFile: /run/token", "schedulerName: one", "https://user:xxxxx@extender.example"} {
		if !strings.Contains(c.Text, part) {
			t.Errorf("%q is not in the configuration:\n%s", part, c.Text)
		}
	}
}

func checksum(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
