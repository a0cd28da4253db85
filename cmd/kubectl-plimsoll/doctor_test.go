package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// TestDoctor_Usage expects mistakes in flags to be told from faults of the cluster.
func TestDoctor_Usage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		fmt.Fprint(w, `{"gitVersion":"v1.36.0"}`)
	}))
	t.Cleanup(server.Close)
	for _, flag := range []string{
		"--config=/absent/file", "--from=deployment/a/b", "--from=configmap/a/absent", "--source-address=ftp://x", "--source-token-file=/absent/token",
		"--check=values.one", "--fail-on=ok",
	} {
		_, err := execute(t.Context(), "doctor", "--kubeconfig=/dev/null", "--server="+server.URL, flag)
		name, _, _ := strings.Cut(flag, "=")
		if _, ok := errors.AsType[*cluster.OptionError](err); !ok || exitCode(err) != 2 || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v, want an error of usage that names the flag", flag, err)
		}
	}
}

// TestDocs_Checks expects the docs to name groups and checks that exist.
func TestDocs_Checks(t *testing.T) {
	exist := slices.Concat(doctor.Groups(checksOfDoctor()...), doctor.IDs(checksOfDoctor()...))
	for _, command := range documented.Commands(t, "../..") {
		if _, selected, ok := strings.Cut(command.Text, "doctor --check "); ok {
			for name := range strings.SplitSeq(selected, ",") {
				if !slices.Contains(exist, name) {
					t.Errorf("%s: %s: no group or check has the name %q", command.Page, command.Text, name)
				}
			}
		}
	}
}

// TestDocs_DoctorIDs expects a row of docs/see-why.md for each group, with the ids of its checks.
func TestDocs_DoctorIDs(t *testing.T) {
	content, err := os.ReadFile("../../docs/see-why.md")
	must(t, err)
	ids := map[string][]string{}
	for _, id := range doctor.IDs(checksOfDoctor()...) {
		group, name, _ := strings.Cut(id, ".")
		ids[group] = append(ids[group], "`"+name+"`")
	}
	for _, group := range doctor.Groups(checksOfDoctor()...) {
		if row := "| `" + group + "` | " + strings.Join(ids[group], ", ") + " |"; !strings.Contains(string(content), row) {
			t.Errorf("docs/see-why.md has no row %s", row)
		}
	}
}
