package finding

import (
	"flag"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

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
	Warn([]Finding{{Code: LimitNotWaived, Field: "f", Line: 3, Similar: []string{"a b"}}}, "text")
	klog.Flush()
	got := log.String()
	if !strings.HasPrefix(got, "W") || !strings.Contains(got, "finding_test.go:") ||
		!strings.HasSuffix(got, `] "The limit is never waived, because the plugin is not enabled at preFilter" field="f" line=3 similar=["a b"]`+"\n") {
		t.Errorf("the log is %q", got)
	}
}

func TestWarn_JSON(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	defer klog.CaptureState().Restore()
	klog.SetLogger(logger)
	Warn([]Finding{{Code: LimitNotWaived, Field: "f"}}, "json")
	check.Contains(t, logger.GetSink().(ktesting.Underlier).GetBuffer().String(), `preFilter field="f" severity="warning"`)
}
