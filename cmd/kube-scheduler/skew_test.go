package main

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestSkewWarning(t *testing.T) {
	for _, tc := range []struct {
		name, scheduler, apiServer string
		// want is a part of the warning; empty means that there is none.
		want string
	}{
		{"the same version", "v1.36.4", "v1.36.4", ""},
		{"a newer patch of the same minor", "v1.36.4", "v1.36.0", ""},
		{"one minor older", "v1.35.4", "v1.36.4", ""},
		{"two minors older", "v1.35.4", "v1.37.1", "more than one minor version older"},
		{"one minor newer", "v1.36.4", "v1.35.9", "newer than the API server"},
		{"the API server of a distribution", "v1.36.4", "v1.35.9-gke.1+k3s2", "newer than the API server"},
		{"a minor with two digits more is newer, not older", "v1.100.0", "v1.36.0", "newer than the API server"},
		{"a scheduler built without a version", "v0.0.0-master+$Format:%H$", "v1.36.4", ""},
		{"an API server that does not tell a version", "v1.36.4", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := skewWarning(tc.scheduler, tc.apiServer)
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("warning %q, want %q in it", got, tc.want)
			}
		})
	}
}

// versionServer fails until it has been asked as often as failures says.
type versionServer struct {
	failures int64
	asked    atomic.Int64
}

func (s *versionServer) ServerVersion() (*apiversion.Info, error) {
	if s.asked.Add(1) <= s.failures {
		return nil, errors.New("no API server")
	}
	return &apiversion.Info{GitVersion: "v1.35.4"}, nil
}

func TestWarnOfSkew_OnceAfterAPIServerResponds(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	server := &versionServer{failures: 2}
	warnOfSkew(klog.NewContext(t.Context(), logger), "v1.36.4", server, time.Millisecond)
	if asked := server.asked.Load(); asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	var warnings int
	for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		if strings.HasPrefix(entry.Message, "This scheduler is newer") {
			warnings++
			want := map[any]any{"scheduler": "v1.36.4", "apiServer": "v1.35.4"}
			for i := 0; i < len(entry.ParameterKVList); i += 2 {
				if entry.ParameterKVList[i+1] != want[entry.ParameterKVList[i]] {
					t.Errorf("key %v is %v", entry.ParameterKVList[i], entry.ParameterKVList[i+1])
				}
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings, want 1", warnings)
	}
}
