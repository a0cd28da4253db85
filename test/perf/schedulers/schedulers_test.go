package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	appsv1listers "k8s.io/client-go/listers/apps/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // decodes the arguments of the plugins
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

func TestProfiles_AreConfigurations(t *testing.T) {
	for name, p := range profiles() {
		text := check.Value(p.configure("ours", "http://127.0.0.1:9090"))(t)
		text = strings.ReplaceAll(text, "{{ .Kubeconfig }}", "file")
		object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		profile := object.(*schedulerconfig.KubeSchedulerConfiguration).Profiles[0]
		check.Equal(t, name+": the scheduler is called", "ours", profile.SchedulerName)
		var enabled []string
		for _, plugin := range profile.Plugins.MultiPoint.Enabled {
			enabled = append(enabled, plugin.Name)
		}
		for _, plugin := range p.plugins {
			if !slices.Contains(enabled, plugin) {
				t.Errorf("%s: %s is not enabled", name, plugin)
			}
		}
		check.Equal(t, name+": request scorers off", p.inPlace, len(profile.Plugins.Score.Disabled) == 2)
	}
}

func TestLoadPlugins_AreAllThatReadLoad(t *testing.T) {
	var want []string
	for _, d := range plugins.All() {
		if d.Reads != nil {
			want = append(want, d.Name)
		}
	}
	slices.Sort(want)
	check.Equal(t, "plugins that read load", want, slices.Sorted(slices.Values(loadPlugins)))
}

func TestParse(t *testing.T) {
	_, err := parse([]string{"-profile", "best"})
	check.Error(t, err, `"best"`, "recommended", "stock")
	_, err = parse([]string{"-batch", "25"})
	check.Error(t, err, "batch: 25", "multiple of 10")
	for _, tc := range []struct{ args, ours, base string }{
		{"-profile packing -base-profile packing -base-program base-kube-scheduler", "kube-scheduler", "base-kube-scheduler"},
		{"-program measured -base-program base", "measured", "stock-kube-scheduler"}, // which is no build of this project
		{"-profile stock", "stock-kube-scheduler", "stock-kube-scheduler"},           // over itself, to see that nothing is found
	} {
		c := check.Value(parse(strings.Fields(tc.args)))(t)
		check.Equal(t, tc.args, [2]string{tc.ours, tc.base}, [2]string{c.sides[0].program, c.sides[1].program})
	}
}

func TestStoredPodsKeepWhatTheSchedulerReads(t *testing.T) {
	codec := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	pod := newPod(measuredNamespace, "ours", 13, true)
	object := check.Value(runtime.Decode(codec, check.Value(runtime.Encode(codec, pod))(t)))(t)
	got := object.(*corev1.Pod)
	// The pods 10 to 19 are of the second workload.
	check.Equal(t, "name, scheduler and node", [3]string{"workload-00001-6d5f8c7b9d-00013", "ours", ""},
		[3]string{got.Name, got.Spec.SchedulerName, got.Spec.NodeName})
	if owner := got.OwnerReferences[0]; owner.Kind != "ReplicaSet" || owner.Name != "workload-00001-6d5f8c7b9d" {
		t.Errorf("the owner is %s %s", owner.Kind, owner.Name)
	}
	if got.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("no defaults")
	}
}

// The stock scheduler spreads a pod by default if its ReplicaSet selects it. The pods 10 to 19 are of the second workload.
func TestReplicaSets_SelectTheirPods(t *testing.T) {
	b := bench{workload: workload{batch: 20, owned: true}, pods: 10}
	sets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	made := b.newReplicaSets(2)
	check.Equal(t, "ReplicaSets for 40 pods", 4, len(made))
	for _, set := range made {
		check.OK(t, sets.Add(set.object))
	}
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range b.newPods([]string{"ours", "base"}) {
		selector := helper.DefaultSelector(pod.object.(*corev1.Pod), corev1listers.NewServiceLister(none),
			corev1listers.NewReplicationControllerLister(none), appsv1listers.NewReplicaSetLister(sets), appsv1listers.NewStatefulSetLister(none))
		if selector.Empty() || !selector.Matches(labels.Set(pod.object.(*corev1.Pod).Labels)) {
			t.Errorf("%s is selected by %q", pod.key, selector)
		}
	}
}

// 100 attempts: 50 up to 1 ms, 48 up to 2 ms, 2 up to 4 ms. The 99th is the first of two between 2 and 4 ms: 3 ms.
func TestQuantile(t *testing.T) {
	var buckets cluster.Metrics
	for bound, count := range map[string]float64{"0.001": 50, "0.002": 98, "0.004": 100, "+Inf": 100} {
		buckets = append(buckets, &model.Sample{Metric: model.Metric{model.BucketLabel: model.LabelValue(bound)}, Value: model.SampleValue(count)})
	}
	check.Equal(t, "the 99th percentile, want 0.003", .003, quantile(.99, buckets), cmpopts.EquateApprox(0, 1e-9))
}

func TestNewPods_SpreadStrictly(t *testing.T) {
	b := bench{workload: workload{batch: 10, strict: true}}
	for _, pod := range b.newPods([]string{"ours"}) {
		constraints := pod.object.(*corev1.Pod).Spec.TopologySpreadConstraints
		if len(constraints) != 2 || constraints[0].TopologyKey != corev1.LabelTopologyZone || constraints[1].TopologyKey != corev1.LabelHostname ||
			constraints[0].WhenUnsatisfiable != corev1.DoNotSchedule {
			t.Errorf("%s has %+v", pod.key, constraints)
		}
	}
}

// Of 2.6 s, two collections took 0.3 s each on average. 40 MB of 500 MB, after which there is a collection, are 0.08 of one: 0.024 s.
// The other round has no collection: 2 + 0.024 s. ((2.6 - 2 x 0.3 + 0.024) + 2.024) / 400 = 10.12 ms.
func TestCostOf_PaysForTheShareOfACollection(t *testing.T) {
	rounds := []round{
		{pods: 200, used: 2600 * time.Millisecond, heap: heap{allocated: 40e6, collections: 2}, before: collection{used: 0.2, room: 400e6}},
		{pods: 200, used: 2 * time.Second, heap: heap{allocated: 40e6}, before: collection{used: 0.4, room: 600e6}},
	}
	check.Equal(t, "seconds a pod costs", 0.01012, costOf(rounds), cmpopts.EquateApprox(0, 1e-9))
}
