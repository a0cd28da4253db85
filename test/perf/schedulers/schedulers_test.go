package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

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
		if profile.SchedulerName != "ours" {
			t.Errorf("%s: the scheduler is called %q", name, profile.SchedulerName)
		}
		var enabled []string
		for _, plugin := range profile.Plugins.MultiPoint.Enabled {
			enabled = append(enabled, plugin.Name)
		}
		for _, plugin := range p.plugins {
			if !slices.Contains(enabled, plugin) {
				t.Errorf("%s: %s is not enabled", name, plugin)
			}
		}
		if got := len(profile.Plugins.Score.Disabled) == 2; got != p.inPlace {
			t.Errorf("%s: request scorers off: %v, want %v", name, got, p.inPlace)
		}
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

func TestProgram(t *testing.T) {
	for name, want := range map[string]string{
		"stock": "stock-kube-scheduler", "recommended": "kube-scheduler", "idle7": "idle-kube-scheduler", "burdened": "idle-kube-scheduler",
	} {
		if got := profiles()[name].program(); got != want {
			t.Errorf("%s runs %s, want %s", name, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	_, err := parse([]string{"-profile", "best"})
	check.Error(t, err, `"best"`, "recommended", "stock")
	c := check.Value(parse([]string{"-profile", "packing", "-base-profile", "packing", "-base-program", "base-kube-scheduler"}))(t)
	if c.ours.program != "kube-scheduler" || c.base.program != "base-kube-scheduler" {
		t.Errorf("%s is compared with %s", c.ours.program, c.base.program)
	}
	// The stock scheduler is no build of this project.
	c = check.Value(parse([]string{"-program", "measured", "-base-program", "base"}))(t)
	if c.ours.program != "measured" || c.base.program != "stock-kube-scheduler" {
		t.Errorf("%s is compared with %s", c.ours.program, c.base.program)
	}
	_, err = parse([]string{"-batch", "25"})
	check.Error(t, err, "batch: 25", "multiple of replicas, 10")
	_, err = parse([]string{"-profile", "packing", "-burden", "150us"})
	check.Error(t, err, "burden: 150µs", `"packing"`)
	_, err = parse([]string{"-profile", "idle7", "-base-profile", "idle7", "-program", "measured", "-base-program", "base"})
	check.Error(t, err, `"idle7" does not read load`, "idle-kube-scheduler")
	check.Value(parse([]string{"-profile", "stock"}))(t) // over itself, to see that nothing is found
}

func TestStoredPodsKeepWhatTheSchedulerReads(t *testing.T) {
	codec := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	pod := newPod(measuredNamespace, "ours", 13, 10, true)
	object := check.Value(runtime.Decode(codec, check.Value(runtime.Encode(codec, pod))(t)))(t)
	got := object.(*corev1.Pod)
	// The pods 10 to 19 are of the second workload.
	if got.Name != "workload-00001-6d5f8c7b9d-00013" || got.Spec.SchedulerName != "ours" || got.Spec.NodeName != "" {
		t.Errorf("%s for %s on %q", got.Name, got.Spec.SchedulerName, got.Spec.NodeName)
	}
	if owner := got.OwnerReferences[0]; owner.Kind != "ReplicaSet" || owner.Name != "workload-00001-6d5f8c7b9d" {
		t.Errorf("the owner is %s %s", owner.Kind, owner.Name)
	}
	if got.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("no defaults")
	}
}

// The stock scheduler spreads a pod by default if its ReplicaSet selects it. The pods 10 to 19 are of the second workload.
func TestReplicaSets_SelectTheirPods(t *testing.T) {
	b := bench{workload: workload{batch: 20, replicas: 10, owned: true}}
	b.newPods([]string{"ours", "base"}, 1) // the waiting pods of the start take a workload
	sets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	made := b.newReplicaSets(2)
	if len(made) != 4 {
		t.Errorf("%d ReplicaSets for 40 pods, want 4", len(made))
	}
	for _, set := range made {
		check.OK(t, sets.Add(set.object))
	}
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, pod := range b.newPods([]string{"ours", "base"}, 20) {
		selector := helper.DefaultSelector(pod.object.(*corev1.Pod), corev1listers.NewServiceLister(none),
			corev1listers.NewReplicationControllerLister(none), appsv1listers.NewReplicaSetLister(sets), appsv1listers.NewStatefulSetLister(none))
		if selector.Empty() || !selector.Matches(labels.Set(pod.object.(*corev1.Pod).Labels)) {
			t.Errorf("%s is selected by %q", pod.key, selector)
		}
	}
}

// Of 2.6 s, two collections took 0.3 s each. 40 MB of 500 MB, after which there is a collection, are 0.08 of one: 0.024 s.
// (2.6 - 2 x 0.3 + 0.024) / 200 = 10.12 ms.
func TestRound_PaysForItsShareOfACollection(t *testing.T) {
	r := round{pods: 200, used: 2600 * time.Millisecond, heap: heap{allocated: 40e6, collections: 2}}
	if got := r.perPod(collection{used: 0.3, room: 500e6}); math.Abs(got-0.01012) > 1e-9 {
		t.Errorf("a pod costs %v s, want 0.01012", got)
	}
}
