package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
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
	} {
		_, err := execute(t.Context(), "doctor", "--kubeconfig=/dev/null", "--server="+server.URL, flag)
		name, _, _ := strings.Cut(flag, "=")
		if _, ok := errors.AsType[usageError](err); !ok || exitCode(err) != 2 || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v, want an error of usage that names the flag", flag, err)
		}
	}
}

func TestPrintReport(t *testing.T) {
	advice := doctor.Advice{Text: "In file f, write:", YAML: "a:\n  b: 1\n"}
	report := &doctor.Report{
		Configuration: "file f", Restart: "kubectl restart",
		Checks: []doctor.Check{
			{Group: "source", ID: "source.answers", Status: doctor.OK, Message: "it answers"},
			{Group: "nodes", ID: "nodes.measured", Status: doctor.Error, Message: "no load", Advice: []doctor.Advice{advice}},
			{Group: "nodes", ID: "nodes.same", Status: doctor.Warning, Message: "one", Advice: []doctor.Advice{{Text: "For both:"}}},
			{Group: "nodes", ID: "nodes.same", Status: doctor.Warning, Message: "another", Advice: []doctor.Advice{{Text: "For both:"}}},
			{Group: "nodes", ID: "nodes.nearest", Status: doctor.Warning, Message: "w-1", Advice: []doctor.Advice{advice, {Text: "Or look:", Command: "kubectl get nodes"}}},
		},
	}
	var b strings.Builder
	if err := printReport(&b, style{}, report); err != nil {
		t.Fatal(err)
	}
	want := `Configuration: file f

SOURCE
✓ it answers

NODES
✗ no load
    In file f, write:
      a:
        b: 1
! one
! another
    For both:
! w-1
    As above.
    Or look:
      kubectl get nodes

The scheduler reads a changed configuration when it restarts:
      kubectl restart
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (style{colour: true}).mark(doctor.Error); got != "\x1b[31m✗\x1b[0m" {
		t.Errorf("on a terminal the mark is %q", got)
	}
}
