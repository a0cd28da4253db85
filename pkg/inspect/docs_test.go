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
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
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
	must(t, err)
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
	must(t, err)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDocs_Examples compares the examples in docs/see-why.md with what the tools print.
func TestDocs_Examples(t *testing.T) {
	for command, prints := range map[string]func(*testing.T, *terminal.Printer){
		"explain -f web.yaml": func(t *testing.T, p *terminal.Printer) {
			t.Helper()
			c := documentedCluster(t, documented, []float64{25, 50, 10, 78.2}, documentedPod("new", "272m", "worker-4", -1))
			r, err := explain.Explain(t.Context(), c.Scheduler, explain.Options{Pod: documentedPod("web", "200m", "", -1)})
			must(t, err)
			r.Configuration = "file scheduler.yaml"
			r.Print(p)
		},
		"explain web-0 --last": func(_ *testing.T, p *terminal.Printer) {
			(&explain.LastDecision{Namespace: "default", Name: "web-0", Time: documentedTime, AgeSeconds: 3720, Record: &pluginexplain.Record{
				Profile: "plimsoll", Node: "worker-1", Scored: 3, DecidedBy: []string{"TargetLoadPacking"},
				Nodes: []pluginexplain.RecordNode{{Name: "worker-1", Total: 715}, {Name: "worker-3", Total: 605}, {Name: "worker-2", Total: 455}},
				Plugins: []pluginexplain.RecordPlugin{
					{Name: "TaintToleration", Points: []int64{300, 300, 300}},
					{
						Name: "TargetLoadPacking", Points: []int64{415, 305, 155},
						Terms: []pluginexplain.Term{{Name: "cpu measured", Value: 25, Unit: "%"}, {Name: "cpu of the pod", Value: 3.75, Unit: "%"}},
					},
				},
			}}).Print(p)
		},
		"top": func(t *testing.T, p *terminal.Printer) {
			t.Helper()
			nodes, err := documentedTop(t).Nodes(t.Context(), top.Selection{})
			must(t, err)
			top.Sort(nodes.Nodes, top.ByLine, false)
			nodes.Print(p, top.ByLine, true)
		},
		"top pods worker-1": func(t *testing.T, p *terminal.Printer) {
			t.Helper()
			pods, err := documentedTop(t).Pods(t.Context(), "worker-1")
			must(t, err)
			pods.Print(p, true)
		},
		"what-if -f deployment.yaml --replicas 30 --config scheduler.yaml --profile-from new.yaml": documentedWhatIf,
	} {
		t.Run(command, func(t *testing.T) {
			page, err := os.ReadFile("../../docs/see-why.md")
			must(t, err)
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
	r, err := top.New(c.Scheduler, c.profiles, top.Options{})
	must(t, err)
	return r
}

func documentedWhatIf(t *testing.T, p *terminal.Printer) {
	t.Helper()
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: plimsoll
      containers: [{name: web, image: web, resources: {requests: {cpu: 400m}}}]
`
	web, err := manifest.ReadFile(t.Context(), "-", strings.NewReader(deployment), "default")
	must(t, err)
	r := &whatif.Report{}
	for _, o := range []struct{ file, yaml string }{
		{"file scheduler.yaml", documented},
		{"file new.yaml", strings.Replace(documented, "{cpu: 80}", "{cpu: 70}, whenNoneFits: Reject", 1)},
	} {
		c := documentedCluster(t, o.yaml, []float64{73, 58, 19, 48})
		plan, err := whatif.NewPlan(c.objects, whatif.Scenario{Manifest: web, Replicas: new(30)})
		must(t, err)
		out, err := plan.Run(t.Context(), c.Scheduler, whatif.RunOptions{Profiles: []string{"plimsoll"}})
		must(t, err)
		out.Configuration = o.file
		r.Changes, r.Outcomes = plan.Changes, append(r.Outcomes, out)
	}
	r.Print(p)
}
