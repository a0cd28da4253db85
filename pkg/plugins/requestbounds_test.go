package plugins_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// chartConfiguration is the configuration in the chart's default values.
func chartConfiguration(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "manifests", "chart", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config map[string]any `json:"config"`
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	values.Config["apiVersion"], values.Config["kind"] = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	whole, err := yaml.Marshal(values.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(whole)
}

// The chart's default profile never binds a pod whose requests wrap, and goes on to place others.
func TestLive_RequestBounds(t *testing.T) {
	pod := func(name string, memory ...string) *corev1.Pod {
		w := st.MakePod().Namespace(metav1.NamespaceDefault).Name(name).UID(name).SchedulerName("plimsoll")
		for _, quantity := range memory {
			w = w.Req(plugintest.CPUAndMemory("10m", quantity))
		}
		return w.Obj()
	}
	l := newLive(t, map[string]float64{"a": 0.1}, nil)
	l.start(chartConfiguration(t))
	for _, tt := range []struct {
		bad    *corev1.Pod
		reason string
	}{
		{pod("wraps-below-0", "5Ei", "5Ei"), "10Ei of memory, more than the scheduler can count"},
		{pod("wraps-to-0", "4Ei", "4Ei", "4Ei", "4Ei"), "16Ei of memory, more than the scheduler can count"},
		{pod("read-as-0", "1e30"), "1e+30 of memory, more than the scheduler can count"},
		{pod("too-large", "40000Gi"), "40000Gi of memory, more than 1000 times what the largest node has (32Gi)"},
	} {
		l.create(tt.bad)
		l.refused(tt.bad.Name, tt.reason)
		good := "beside-" + tt.bad.Name
		l.create(pod(good, "1Gi", "1Gi"))
		l.bound(good, "a")
		if node := l.pod(tt.bad.Name).Spec.NodeName; node != "" {
			t.Errorf("%s is bound to %s", tt.bad.Name, node)
		}
	}
}
