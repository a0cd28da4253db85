package run

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const (
	ownHeader = "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\n"
	scheduler = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: s, plugins: {score: {enabled: [{name: TargetLoadPacking}]}}}]
`
)

func TestCommand_ValidateOnly(t *testing.T) {
	for _, tc := range []struct{ name, own, scheduler, state, want string }{
		{"valid", ownHeader + "mode: Evict\n", scheduler, "ns/name", "are valid"},
		{"no file", "", scheduler, "ns/name", "--config: required; name the file with the RebalancerConfiguration"},
		{"no file of the scheduler", ownHeader, "", "ns/name", "--scheduler-config: required"},
		{"a mode", ownHeader + "mode: Move\n", scheduler, "ns/name", `mode: Unsupported value: "Move": supported values: "Plan", "Evict"`},
		{"a field", ownHeader + "minPodAge: 10x\n", scheduler, "ns/name", "file.yaml: line 3: minPodAge: want a duration such as 5m"},
		{"files in the wrong order", scheduler, ownHeader, "ns/name", `kind: Unsupported value: "KubeSchedulerConfiguration"`},
		{"a plugin", ownHeader, strings.Replace(scheduler, "LoadPacking", "LoadPaking", 1), "ns/name", "TargetLoadPaking"},
		{
			"no lease", ownHeader, scheduler + "leaderElection: {leaderElect: false}\n", "ns/name",
			"leaderElection.leaderElect: false; write true",
		},
		{"a state without a namespace", ownHeader, scheduler, "name", `--state: "name"; write NAMESPACE/NAME of a ConfigMap`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"--validate-only", "--state=" + tc.state}
			for flag, content := range map[string]string{"--config=": tc.own, "--scheduler-config=": tc.scheduler} {
				if content == "" {
					continue
				}
				file := check.File(t, "file.yaml", content)
				args = append(args, flag+file)
			}
			command := NewCommand("v1", clock.RealClock{}, func(...metrics.Registerable) {}, http.NotFoundHandler())
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			command.SetArgs(args)
			err := command.Execute()
			if got := out.String(); !strings.Contains(got, tc.want) || (err == nil) != (tc.name == "valid") {
				t.Errorf("error %v, output %q, want %q", err, got, tc.want)
			}
		})
	}
}

// TestOptions_Workload expects the flags to name the scheduler whose load is read, by default as its Lease.
func TestOptions_Workload(t *testing.T) {
	lease := scheduler + "leaderElection: {leaderElect: true, resourceNamespace: b, resourceName: a}\n"
	o := options{config: check.File(t, "own.yaml", ownHeader), schedulerConfig: check.File(t, "scheduler.yaml", lease), state: "ns/name", loadPort: 10300}
	for deployment, want := range map[string]string{"": "b/a", "ns/plimsoll": "ns/plimsoll"} {
		o.deployment = deployment
		w := check.Value(o.read())(t).workload
		check.Equal(t, "the scheduler", want, w.Namespace+"/"+w.Name)
		check.Equal(t, "its port", uint16(10300), w.LoadPort)
	}
	none := o
	none.loadPort = 0
	if w := check.Value(none.read())(t).workload; w != nil {
		t.Errorf("with --load-port=0, load is read from %v", w)
	}
	o.deployment = "plimsoll"
	_, err := o.read()
	check.Error(t, err, `--scheduler: "plimsoll"; write NAMESPACE/NAME of the scheduler's Deployment`)
}

func TestNewStateError(t *testing.T) {
	of := schema.GroupResource{Resource: "configmaps"}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{apierrors.NewNotFound(of, "s"), "--state: there is no ConfigMap ns/s; create it: kubectl -n ns create configmap s"},
		{apierrors.NewForbidden(of, "s", errors.New("no")), `--state: configmaps "s" is forbidden: no; grant get and update on the ConfigMap`},
		{errors.New("connection refused"), "read the state, ConfigMap ns/s: connection refused"},
	} {
		if got := newStateError("ns", "s", tc.err).Error(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
