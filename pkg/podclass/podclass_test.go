package podclass

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

func selector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// A pod belongs to the first class that names its priority class or selects its labels.
func TestClasses_Of(t *testing.T) {
	classes := New([]config.PodClass{
		{PriorityClassNames: []string{"high", "higher"}},
		{PriorityClassNames: []string{"low"}, PodSelector: selector("tier", "batch")},
		{PodSelector: selector("tier", "batch")},
		{PodSelector: selector("-invalid", "")},
	})
	pod := func(class, tier string) *corev1.Pod {
		p := st.MakePod().Label("tier", tier).Obj()
		p.Spec.PriorityClassName = class
		return p
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want int
	}{
		{"by a priority class", pod("higher", ""), 0},
		{"by priority class, and labels of a lower class", pod("high", "batch"), 0},
		{"by priority class alone", pod("low", ""), 1},
		{"by labels alone, of the first class", pod("", "batch"), 1},
		{"neither", pod("other", "front"), None},
		{"nothing set", &corev1.Pod{}, None},
	} {
		if got := classes.Of(tc.pod); got != tc.want {
			t.Errorf("%s: class %d, want %d", tc.name, got, tc.want)
		}
	}
	if got := New(nil); got.Of(pod("high", "")) != None || got.Len() != 0 {
		t.Errorf("without classes, a pod is of class %d of %d", got.Of(pod("high", "")), got.Len())
	}
}

func TestClasses_Equal(t *testing.T) {
	of := func() *Classes { return New([]config.PodClass{{PodSelector: selector("a", "b")}}) }
	for _, tc := range []struct {
		name string
		a, b *Classes
		want bool
	}{
		{"none", New(nil), New(nil), true},
		{"none and some", New(nil), of(), false},
		{"some and none", of(), New(nil), false},
		{"the same rules", of(), of(), true},
		{"another value", of(), New([]config.PodClass{{PodSelector: selector("a", "c")}}), false},
	} {
		if got := tc.a.Equal(tc.b); got != tc.want {
			t.Errorf("%s: equal %v, want %v", tc.name, got, tc.want)
		}
	}
}
