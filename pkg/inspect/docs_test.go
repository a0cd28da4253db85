package inspect_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// documented is the configuration of the examples in docs/see-why.md.
const documented = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    multiPoint: {enabled: [{name: LoadThreshold}]}
    score:
      disabled: # scorers by requests, and scorers without effect here
      - {name: NodeResourcesFit}
      - {name: NodeResourcesBalancedAllocation}
      - {name: VolumeBinding}
      - {name: DynamicResources}
      - {name: ImageLocality}
      enabled: [{name: TargetLoadPacking, weight: 5}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}}}
`

var documentedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// documentedCluster simulates nodes of 8 cores and 16 GiB: worker-1, worker-2 and so on. Their CPU load is in percent, 0 if unknown.
func documentedCluster(t *testing.T, yaml string, cpu []float64, pods ...runtime.Object) *fakeCluster {
	t.Helper()
	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(yaml), nil, nil)
	check.OK(t, err)
	configuration := object.(*schedulerconfig.KubeSchedulerConfiguration)
	c := &fakeCluster{profiles: configuration.Profiles, objects: pods}
	nodes := map[string]load.NodeLoad{}
	for i, percent := range cpu {
		name := fmt.Sprint("worker-", i+1)
		c.objects = append(c.objects, st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
			Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj())
		measured := func(mean, deviation float64) load.Measurement {
			return load.Measurement{Stat: load.Stat{Mean: mean, StdDev: deviation, Known: true}, End: documentedTime}
		}
		if percent > 0 {
			nodes[name] = load.NodeLoad{measured(percent/100, percent/600), measured(0.25, 0)}
		}
	}
	loads := readingtest.New(clocktesting.NewFakePassiveClock(documentedTime))
	loads.MeasureAll(nodes, nil)
	c.Scheduler, err = sim.New(t.Context(), sim.Options{
		Configuration: configuration, Objects: c.objects,
		Plugins: plugins.NewRegistry(loads, clocktesting.NewFakeClock(documentedTime), func(...metrics.Registerable) {}),
	})
	check.OK(t, err)
	return c
}

// documentedPod is unassigned if the node is empty. A negative running time leaves its status empty, as just after the binding.
func documentedPod(name, cpu, node string, running time.Duration) *corev1.Pod {
	p := st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName("plimsoll").Node(node).
		Req(map[corev1.ResourceName]string{"cpu": cpu}).Obj()
	p.Spec.Containers[0].Name = "main"
	if running >= 0 {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: documentedTime.Add(-running)}}
	}
	return p
}

// TestDocs_Examples compares the examples in docs/see-why.md with what the tools print.
func TestDocs_Examples(t *testing.T) {
	for command, prints := range map[string]func(*testing.T, *terminal.Printer){
		"explain -f web.yaml": func(t *testing.T, p *terminal.Printer) {
			t.Helper()
			c := documentedCluster(t, documented, []float64{25, 50, 10, 78.2}, documentedPod("new", "272m", "worker-4", -1))
			r := check.Value(explain.Explain(t.Context(), c.Scheduler, explain.Options{Pod: documentedPod("web", "200m", "", -1)}))(t)
			r.Configuration = "file scheduler.yaml"
			r.Print(p)
		},
		"top": func(t *testing.T, p *terminal.Printer) {
			t.Helper()
			nodes := check.Value(documentedTop(t).Nodes(t.Context(), top.Selection{}))(t)
			top.Sort(nodes.Nodes, top.ByLine)
			nodes.Print(p, true)
		},
	} {
		t.Run(command, func(t *testing.T) {
			page := check.Value(os.ReadFile("../../docs/see-why.md"))(t)
			_, example, _ := strings.Cut(string(page), "$ kubectl plimsoll "+command+"\n")
			example, _, _ = strings.Cut(example, "```")
			p := &terminal.Printer{}
			prints(t, p)
			if diff := cmp.Diff(p.String(), example); diff != "" {
				t.Errorf("docs/see-why.md (-printed +documented):\n%s\nwrite:\n%s", diff, p.String())
			}
		})
	}
}

func documentedTop(t *testing.T) *top.Reader {
	t.Helper()
	c := documentedCluster(t, documented, []float64{30.2, 85, 0},
		documentedPod("web-0", "1", "worker-1", time.Hour), documentedPod("web-1", "1", "worker-1", time.Minute),
		documentedPod("web-2", "4", "worker-2", time.Hour))
	return check.Value(top.New(c.Scheduler, c.profiles, top.Options{}))(t)
}
