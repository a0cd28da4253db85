package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	componentversion "k8s.io/component-base/version"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// Origin describes how a report of o was made: by which program, flags, pods and configurations.
func (s *Selection) Origin(
	ctx context.Context, o Options, version string, made time.Time, flags *pflag.FlagSet,
) (*report.Origin, error) {
	origin := &report.Origin{
		Made: made.UTC().Truncate(time.Second), Version: version, Kubernetes: componentversion.Get().GitVersion,
		Command: commandLine(flags), Source: s.source(),
	}
	for _, in := range o.Inputs {
		sum := sha256.New()
		if err := input.Write(sum, in); err != nil {
			return nil, err
		}
		origin.Inputs = append(origin.Inputs, report.Fingerprint{Name: in.Name, SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
	for _, file := range s.Configs {
		content, err := boundedfile.ReadConfiguration(ctx, file)
		if err != nil {
			return nil, cluster.OptionErrorf("--config: %w", err)
		}
		shown, err := withoutSecrets(content)
		if err != nil {
			return nil, cluster.OptionErrorf("--config: %s: %w", file, err)
		}
		sum := sha256.Sum256(content)
		origin.Configurations = append(origin.Configurations,
			report.Configuration{File: filepath.Base(file), SHA256: hex.EncodeToString(sum[:]), Text: shown})
	}
	return origin, nil
}

// source names where the pods come from.
func (s *Selection) source() string {
	switch {
	case s.Prometheus != "":
		return fmt.Sprintf("history of a cluster, %v, from %s", s.Since, withoutPassword(s.Prometheus))
	case s.Load != "":
		return "file " + filepath.Base(s.Load)
	case s.Traces != "":
		return "generated pods, with the usage of the traces in " + filepath.Base(s.Traces)
	}
	return "generated pods, with the usage of generated traces"
}

// commandLine returns the command with the flags that were given, sorted by name.
func commandLine(flags *pflag.FlagSet) string {
	words := []string{"kubectl plimsoll replay"}
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		words = append(words, "--"+f.Name+"="+text.ShellQuote(withoutPassword(value)))
	})
	return strings.Join(words, " ")
}

// withoutPassword hides the password of a URL, or all of a URL that cannot be parsed. Other values stay.
func withoutPassword(value string) string {
	u, err := url.Parse(value)
	switch {
	case err != nil && strings.Contains(value, "://"):
		return config.RedactedSecret
	case err == nil && u.User != nil:
		return u.Redacted()
	}
	return value
}

// withoutSecrets returns a configuration with keys sorted, and without the values of secrets.
func withoutSecrets(content []byte) (string, error) {
	var parsed any
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		return "", err
	}
	shown, err := yaml.Marshal(redact("", parsed))
	if err != nil {
		return "", err
	}
	return string(shown), nil
}

// secretKeys name the secrets of a KubeSchedulerConfiguration: those of a metrics provider, and the private key of an extender.
var secretKeys = map[string]bool{"token": true, "applicationkey": true, "keydata": true}

// redact replaces secrets in parsed YAML, in place. Decoders ignore the case of keys.
func redact(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = redact(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = redact(key, v[i])
		}
	case string:
		if secretKeys[strings.ToLower(key)] && v != "" {
			return config.RedactedSecret
		}
		return withoutPassword(v)
	}
	return value
}
