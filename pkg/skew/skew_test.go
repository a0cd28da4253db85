package skew_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCompare(t *testing.T) {
	const newer, older = "newer than the API server", "minor versions older than the API server"
	for _, tt := range []struct {
		name, scheduler, apiServer string
		behind                     int
		// problem and advice are parts of the Problem and the Advice; empty if there is none.
		problem, advice string
	}{
		{"the same version", "v1.36.4", "v1.36.4", 0, "", ""},
		{"a newer patch of the same minor", "v1.36.4", "v1.36.0", 0, "", ""},
		{"one minor older", "v1.35.4", "v1.36.4", 1, "", ""},
		{"two minors older", "v1.35.4", "v1.37.1", 2, "2 " + older, "for Kubernetes 1.37, or for 1.36."},
		{"one minor newer", "v1.36.4", "v1.35.9", -1, newer, "for Kubernetes 1.35, or upgrade the cluster to 1.36 first."},
		{"k3s", "v1.36.4", "v1.35.9+k3s2", -1, newer, "1.35"},
		{"a cloud", "v1.36.3", "v1.36.2-eks-1234", 0, "", ""},
		{"a scheduler whose patch is not known", "1.37", "v1.36.4", -1, newer + ", which Kubernetes does not support: it may place no pod", "for Kubernetes 1.36"},
		{"a minor with more digits is newer", "v1.100.0", "v1.36.0", -64, newer, "1.36"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := check.Value(skew.Compare(tt.scheduler, tt.apiServer))(t)
			if got.Behind != tt.behind || (tt.problem == "") != (got.Problem == "") || !strings.Contains(got.Problem, tt.problem) ||
				!strings.Contains(got.Advice, tt.advice) {
				t.Errorf("got %+v, want %+v", got, tt)
			}
		})
	}
}

func TestCompare_Errors(t *testing.T) {
	for _, tt := range []struct{ name, scheduler, apiServer, want string }{
		{"a scheduler built without a version", "v0.0.0-master+$Format:%H$", "v1.36.4", "major versions differ"},
		{"an API server that does not tell a version", "v1.36.4", "", "the API server's version: "},
		{"no version of a scheduler", "main", "v1.36.4", "the scheduler's version: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := skew.Compare(tt.scheduler, tt.apiServer); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v and %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]string{
		"v1.37.1": "1.37", "v1.100.0": "1.100", "v1.36.2-eks-1234": "1.36", "v0.0.0-master+$Format:%H$": "", "": "", "main": "",
	} {
		check.Equal(t, fmt.Sprintf("the minor version of %q", version), want, skew.Minor(version))
	}
}

func TestMinorOfImage(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/plimsoll-scheduler/plimsoll:0.1.0-k8s1.37": "1.37",
		"registry:5000/plimsoll:0.1.0-k8s1.100":             "1.100",
		"plimsoll:0.1.0-k8s1.36@sha256:0123":                "1.36",
		"plimsoll:0.1.0-k8s1.36-hardened.2":                 "1.36",
		"plimsoll:v0.1.0":                                   "",
		"plimsoll@sha256:0123":                              "",
		"registry:5000/team-k8s1.37/plimsoll:mine":          "",
		"registry.k8s.io/kube-scheduler:v1.37.1":            "",
		"plimsoll:0.1.0-k8s1.37rc":                          "",
		"":                                                  "",
	} {
		check.Equal(t, fmt.Sprintf("image %q is of Kubernetes", image), want, skew.MinorOfImage(image))
	}
}

func TestOtherCommand(t *testing.T) {
	const want = "this kubectl-plimsoll is of Kubernetes 1.36, the scheduler of 1.37: stock plugins and weights may differ"
	check.Equal(t, "OtherCommand", want, skew.OtherCommand("1.36", "1.37"))
	for _, same := range [][2]string{{"1.37", "1.37"}, {"", "1.37"}, {"1.36", ""}} {
		check.Equal(t, fmt.Sprintf("other command of %q", same), "", skew.OtherCommand(same[0], same[1]))
	}
}

func TestIsStockImage(t *testing.T) {
	for image, want := range map[string]bool{
		"registry.k8s.io/kube-scheduler:v1.37.1":                true,
		"registry.k8s.io/kube-scheduler-amd64:v1.37.1":          true,
		"mirror:5000/k8s/kube-scheduler:v1.37.1@sha256:0123":    true,
		"kube-scheduler:v1.37.1-eks-1":                          true,
		"kube-scheduler:mine":                                   false,
		"ghcr.io/plimsoll-scheduler/plimsoll:0.1.0-k8s1.37":     false,
		"registry:5000/plimsoll/kube-scheduler:0.1.0-k8s1.37":   false,
		"registry.k8s.io/scheduler-plugins/kube-scheduler:v0.1": false,
		"": false,
	} {
		check.Equal(t, fmt.Sprintf("%q: IsStockImage", image), want, skew.IsStockImage(image))
	}
}
