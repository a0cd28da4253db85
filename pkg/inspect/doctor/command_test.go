package doctor_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestDoctor_Usage expects mistakes in flags to be told from faults of the cluster.
func TestDoctor_Usage(t *testing.T) {
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		fmt.Fprint(w, `{"gitVersion":"v1.36.0"}`)
	}))
	for _, flag := range []string{
		"--config=/absent/file", "--source-address=ftp://x", "--source-token-file=/absent/token",
		"--check=values.one", "--fail-on=ok",
	} {
		_, err := check.Execute(t.Context(), doctor.Command(), "--kubeconfig=/dev/null", "--server="+server.URL, flag)
		name, _, _ := strings.Cut(flag, "=")
		if _, ok := errors.AsType[*cluster.OptionError](err); !ok || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v, want an error of usage that names the flag", flag, err)
		}
	}
}
