package whatif

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCheckProfile(t *testing.T) {
	known := []string{"plimsoll", "batch"}
	for _, name := range []string{"", "batch", "default-scheduler"} {
		if err := checkProfile(known, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	const want = `--scheduler-name: "plimsol" is no profile of the configuration; write plimsoll, batch, or default-scheduler for the stock scheduler`
	if err := checkProfile(known, "plimsol"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestWithStockProfiles expects one more profile, for a scheduler without one, and an unchanged configuration of the caller.
func TestWithStockProfiles(t *testing.T) {
	own := &cluster.Configuration{Origin: "file f", Decoded: &schedulerconfig.KubeSchedulerConfiguration{
		Profiles: []schedulerconfig.KubeSchedulerProfile{{SchedulerName: "plimsoll"}},
	}}
	of := func(scheduler string) queued {
		return queued{pod: &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: scheduler}}}
	}
	e := &experiment{Request: &Request{}, Report: &Report{}, plan: &Plan{queue: []queued{of("plimsoll"), of("other")}}}
	extended, err := e.withStockProfiles(own)
	check.OK(t, err)
	if want := []string{"plimsoll", "other"}; !slices.Equal(extended.ProfileNames(), want) || extended.Origin != own.Origin {
		t.Errorf("%s has profiles %q, want %q", extended.Origin, extended.ProfileNames(), want)
	}
	check.Equal(t, "the caller's configuration has profiles", []string{"plimsoll"}, own.ProfileNames())
	if len(e.Notes) != 1 {
		t.Errorf("notes %q, want one", e.Notes)
	}
	e.plan.SchedulerName = "plimsoll" // which places the pods of "other" too
	if extended, err = e.withStockProfiles(own); err != nil || len(extended.ProfileNames()) != 1 || len(e.Notes) != 1 {
		t.Errorf("error %v, profiles %q, notes %q; want no further profile and no further note", err, extended.ProfileNames(), e.Notes)
	}
}
