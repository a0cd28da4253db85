package skew_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
)

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

func TestWarn_OnceAfterAPIServerResponds(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	defer klog.CaptureState().Restore()
	klog.SetLogger(logger)
	server := &versionServer{failures: 2}
	skew.Warn(t.Context(), "v1.36.4", server, time.Millisecond, "json")
	if asked := server.asked.Load(); asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	const want = `scheduler="v1.36.4" apiServer="v1.35.4" severity="warning"`
	if strings.Count(log, "the scheduler is newer") != 1 || !strings.Contains(log, want) {
		t.Errorf("the log is %q, want one warning with %s", log, want)
	}
}

func TestWarn_NotOfVersionsThatCannotBeCompared(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	defer klog.CaptureState().Restore()
	klog.SetLogger(logger)
	skew.Warn(klog.NewContext(t.Context(), logger), "v0.0.0-master+$Format:%H$", &versionServer{}, time.Millisecond, "json")
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Contains(log, "severity") {
		t.Errorf("the log is %q, want no warning", log)
	}
}
