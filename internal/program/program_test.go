package program_test

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestWarn_Text expects a line with klog's mark of warnings.
func TestWarn_Text(t *testing.T) {
	var log strings.Builder
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	check.OK(t, flags.Set("logtostderr", "false"))
	defer klog.CaptureState().Restore()
	klog.SetOutput(&log)
	program.Warn("text", "m", "field", "f", "line", 3, "similar", []string{"a b"})
	klog.Flush()
	got := log.String()
	if !strings.HasPrefix(got, "W") || !strings.Contains(got, "program_test.go:") ||
		!strings.HasSuffix(got, `] "m" field="f" line=3 similar=["a b"]`+"\n") {
		t.Errorf("the log is %q", got)
	}
}

func TestWarn_JSON(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	defer klog.CaptureState().Restore()
	klog.SetLogger(logger)
	program.Warn("json", "m", "field", "f")
	if got := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(got, `m field="f" severity="warning"`) {
		t.Errorf("the log is %q", got)
	}
}

func TestVersion(t *testing.T) {
	if got := program.Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("%q, want the linked version", got)
	}
	if program.Version("") == "" {
		t.Error("no version without a linked one")
	}
}
