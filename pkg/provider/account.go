package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// AccountVariable is the environment variable that OpenShift's Secondary Scheduler Operator sets to true.
const AccountVariable = "ENABLE_OPENSHIFT_AUTH"

// podAccountDir is where a pod finds its service account.
const podAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Account is the service account that reads load where neither a token nor a tokenFile is configured. The zero value is
// none.
type Account struct {
	// Dir is a folder with the account's token, read anew as it rotates, and in ca.crt and service-ca.crt, each of which may
	// be absent, the authorities that are trusted beside the system's roots.
	Dir string
}

// AccountOfEnvironment returns the pod's own account if ENABLE_OPENSHIFT_AUTH is true, and none if it is false or not set.
// It fails if it is neither.
func AccountOfEnvironment() (Account, error) {
	value := os.Getenv(AccountVariable)
	if value == "" {
		return Account{}, nil
	}
	enabled, err := strconv.ParseBool(value)
	switch {
	case err != nil:
		return Account{}, fmt.Errorf("env %s: %q is neither true nor false", AccountVariable, value)
	case !enabled:
		return Account{}, nil
	}
	return Account{Dir: podAccountDir}, nil
}

// credentials are what a connection is made with.
type credentials struct {
	token        string
	tokenFile    string
	caFile       string
	extraCAFiles []string
}

// credentials returns those of the provider, or of the account where the provider has no token. The account's token is sent
// over TLS with a verified certificate alone. It fails if the token has to be sent and cannot be read.
func (a Account) credentials(ctx context.Context, address string, provider config.MetricProviderSpec) (credentials, error) {
	c := credentials{token: string(provider.Token), tokenFile: provider.TokenFile, caFile: provider.CAFile}
	if a.Dir == "" || c.token != "" || c.tokenFile != "" {
		return c, nil
	}
	logger := klog.FromContext(ctx).WithValues("address", address)
	if !strings.HasPrefix(strings.ToLower(address), "https://") {
		logger.Info("Load is read without a token: " + AccountVariable + " is set, but over plain http the service account's token " +
			"could be read on the way; if the server wants it, write an https address")
		return c, nil
	}
	if provider.InsecureSkipVerify {
		logger.Info("Load is read without a token: " + AccountVariable + " is set, but with insecureSkipVerify anyone could pose as " +
			"the server and take the service account's token; if the server wants it, set caFile instead of insecureSkipVerify, " +
			"or send it in spite of that with tokenFile: " + filepath.Join(a.Dir, "token"))
		return c, nil
	}
	c.tokenFile = filepath.Join(a.Dir, "token")
	if content, err := os.ReadFile(c.tokenFile); err != nil || strings.TrimSpace(string(content)) == "" {
		if err == nil {
			err = fmt.Errorf("%s is empty", c.tokenFile)
		}
		return c, fmt.Errorf("%s is true and neither token nor tokenFile is configured for %s, but the pod has no token of its "+
			"own: %w; let the pod mount one (automountServiceAccountToken: true), configure tokenFile, or set %s to false",
			AccountVariable, address, err, AccountVariable)
	}
	if c.caFile == "" {
		c.extraCAFiles = a.authorities()
	}
	logger.Info("Load is read with the service account's token", "tokenFile", c.tokenFile, "extraCAFiles", c.extraCAFiles)
	return c, nil
}

// authorities returns the bundles that are there.
func (a Account) authorities() []string {
	var files []string
	for _, name := range []string{"ca.crt", "service-ca.crt"} {
		file := filepath.Join(a.Dir, name)
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	return files
}
