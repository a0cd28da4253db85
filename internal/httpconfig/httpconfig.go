// Package httpconfig reads files of Prometheus' HTTP client configuration.
package httpconfig

import (
	"cmp"
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"
	"go.yaml.in/yaml/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Secret is a secret or, if IsPublic, a file without secrets. At most one of Value and File is set.
type Secret struct {
	Value, File string
	IsPublic    bool
}

// Read returns the secret; empty if it IsPublic. It fails if the file cannot be read within bounds.
func (s *Secret) Read() (string, error) {
	switch {
	case s.File == "":
		return s.Value, nil
	case s.IsPublic:
		_, err := boundedfile.ReadCA(s.File)
		return "", err
	}
	content, err := boundedfile.ReadToken(s.File)
	return strings.TrimSpace(string(content)), err
}

// quoted matches the values that the library's errors quote. They may be secrets.
var quoted = regexp.MustCompile("(?s)`.*`" + `|'[^']*'|"(\\.|[^"\\])*"`)

// Configuration is what a file has: the library's fields, and beside them sigv4, as in Prometheus' remote_write.
type Configuration struct {
	HTTP  config.HTTPClientConfig `yaml:",inline"`
	SigV4 *sigv4.SigV4Config      `yaml:"sigv4"`
}

// Read returns the configuration in a file with its secrets and files. It fails if these cannot be read.
func Read(file string) (*Configuration, []Secret, error) {
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, nil, err
	}
	c := &Configuration{HTTP: config.DefaultHTTPClientConfig}
	if err = yaml.UnmarshalStrict(content, c); err == nil {
		err = c.validate()
	}
	if err != nil {
		return nil, nil, errors.New(text.Excerpt(quoted.ReplaceAllString(err.Error(), "…")))
	}
	c.HTTP.SetDirectory(filepath.Dir(file))
	if c.HTTP.OAuth2 != nil { // the library forgets this file
		c.HTTP.OAuth2.ClientCertificateKeyFile = config.JoinDir(filepath.Dir(file), c.HTTP.OAuth2.ClientCertificateKeyFile)
	}
	secrets := secretsIn("", reflect.ValueOf(c))
	for i := range secrets {
		if _, err := secrets[i].Read(); err != nil {
			return nil, nil, err
		}
	}
	_, err = config.NewRoundTripperFromConfig(c.HTTP, "plimsoll") // reads the certificates
	return c, secrets, err
}

func (c *Configuration) validate() error {
	err := c.HTTP.Validate()
	if err == nil && c.SigV4 != nil && (c.HTTP.BasicAuth != nil || c.HTTP.OAuth2 != nil || c.HTTP.Authorization != nil) {
		return errors.New("at most one of sigv4, basic_auth, oauth2, authorization and bearer_token must be configured")
	}
	return err
}

// secretsIn returns the secrets and the files in a part of the library's configuration.
func secretsIn(field string, part reflect.Value) (all []Secret) {
	switch part.Kind() {
	case reflect.Pointer:
		return secretsIn(field, part.Elem())
	case reflect.Struct:
		for f, value := range part.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			all = append(all, secretsIn(cmp.Or(key, f.Name), value)...)
		}
	case reflect.Slice, reflect.Map:
		for _, value := range part.Seq2() {
			all = append(all, secretsIn(field, value)...)
		}
	case reflect.String:
		isSecret := part.Type() == reflect.TypeFor[config.Secret]() || slices.Contains([]string{"endpoint_params", "password"}, field)
		if isFile := strings.HasSuffix(field, "_file") || field == "files"; isFile && part.String() != "" {
			return []Secret{{File: part.String(), IsPublic: slices.Contains([]string{"ca_file", "cert_file", "username_file"}, field)}}
		} else if isSecret {
			return []Secret{{Value: part.String()}}
		}
	}
	return all
}
