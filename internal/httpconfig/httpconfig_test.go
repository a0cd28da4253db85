package httpconfig

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// everything names each file and each secret that the format has beside client certificates.
const everything = `
oauth2:
  client_id: id
  client_secret_file: client-secret
  token_url: https://login.example.com
  endpoint_params: {assertion: in-parameters}
tls_config: {ca_file: ca.crt, insecure_skip_verify: true}
proxy_url: http://user:in-url@proxy.example.com
proxy_connect_header: {X-Proxy: [in-connect]}
http_headers:
  X-Scope-OrgID: {values: [team-a]}
  X-Key: {secrets: [in-header], files: [header]}
`

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		check.OK(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	certificate, _, err := cert.GenerateSelfSignedCertKey("a", nil, nil)
	check.OK(t, err)
	write("client-secret", "in-file\n")
	write("header", "in-header-file\n")
	write("ca.crt", string(certificate))
	c, secrets, err := Read(write("config.yaml", everything))
	check.OK(t, err)
	check.Equal(t, "redirects", true, c.HTTP.FollowRedirects)
	var got []string
	for _, s := range secrets {
		value := check.Value(s.Read())(t)
		if s.IsPublic {
			value = "public " + filepath.Base(s.File)
		}
		got = append(got, value)
	}
	slices.Sort(got)
	got = slices.DeleteFunc(got, func(value string) bool { return value == "" })
	check.Equal(t, "secrets", []string{
		"in-connect", "in-file", "in-header", "in-header-file", "in-parameters", "in-url", "public ca.crt",
	}, got)
}

func TestRead_JWTKeyIsRelative(t *testing.T) {
	file := check.File(t, "config.yaml", `
oauth2: {client_id: id, grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", client_certificate_key_file: key, token_url: https://login.example.com}
`)
	key := filepath.Join(filepath.Dir(file), "key")
	check.OK(t, os.WriteFile(key, []byte("k3y"), 0o600))
	_, secrets, err := Read(file)
	check.OK(t, err)
	if !slices.ContainsFunc(secrets, func(s Secret) bool { return s.File == key }) {
		t.Errorf("got %+v, want %s", secrets, key)
	}
}

// TestRead_Refuses expects errors that say what is wrong and quote no value.
func TestRead_Refuses(t *testing.T) {
	const secret = "hunter2"
	for content, want := range map[string]string{
		"":                                       "is empty",
		"basic_auth: hunter2":                    "cannot unmarshal",
		"basic_auth: {password: *hunter2}":       "unknown anchor",
		"basic_auth: {pasword: hunter2}":         "pasword not found",
		"proxy_url: http://u:hunter2@a:b":        "invalid port",
		`proxy_url: http://u:"hunter2"@a:b`:      "invalid port",
		"basic_auth: '`hunter2'":                 "cannot unmarshal",
		"basic_auth: {password: 'hunter2\n\t: x": "yaml: ",
		"{bearer_token: hunter2, basic_auth: {username: u, password: hunter2}}": "at most one of basic_auth",
		"http_headers: {Authorization: {secrets: [hunter2]}}":                   "is not allowed",
		"basic_auth: {username: u, password_ref: hunter2}":                      "without manager",
		"basic_auth: {username: u, password_file: absent}":                      "absent: no such file",
		"tls_config: {cert_file: absent, key_file: absent}":                     "absent: no such file",
		"tls_config: {cert: hunter2, key: hunter2}":                             "unable to use specified client cert",
		"tls_config: {ca: hunter2}":                                             "unable to use specified CA cert",
		"sigv4: {access_key: hunter2}":                                          "Secret Key",
		"sigv4: {external_id: hunter2}":                                         "external_id can only be used with role_arn",
		"sigv4: {regin: hunter2}":                                               "regin not found",
		"{sigv4: {}, bearer_token: hunter2}":                                    "at most one of sigv4",
	} {
		_, _, err := Read(check.File(t, "config.yaml", content))
		check.Error(t, err, want)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error of %s shows a secret: %v", content, err)
		}
	}
}

func TestRead_BoundsFiles(t *testing.T) {
	_, _, err := Read(check.File(t, "config.yaml", strings.Repeat("#", 1<<20+1)))
	check.Error(t, err, "config.yaml has more than 1048576 bytes")
	for field, want := range map[string]string{
		"basic_auth: {username_file: it}":               "is not a regular file",
		"tls_config: {ca_file: it}":                     "is not a regular file",
		"http_headers: {X: {files: [it]}}":              "is not a regular file",
		"authorization: {credentials_file: large}":      "has more than 65536 bytes",
		"tls_config: {cert_file: large, key_file: it}":  "is not a regular file",
		"tls_config: {cert_file: it, key_file: large }": "is not a regular file",
	} {
		file := check.File(t, "config.yaml", field)
		check.OK(t, syscall.Mkfifo(filepath.Join(filepath.Dir(file), "it"), 0o600))
		check.OK(t, os.WriteFile(filepath.Join(filepath.Dir(file), "large"), bytes.Repeat([]byte("x"), 64<<10+1), 0o600))
		_, _, err := Read(file)
		check.Error(t, err, want)
	}
}
