package podusage

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/requests"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestRequests reads a day of containers from Prometheus. Another namespace has a workload of the same name.
func TestRequests(t *testing.T) {
	pods, living := day(time.Now())
	var all []series
	for i := range pods {
		all = append(all, pods[i].cAdvisor()...)
	}
	url, _ := startPrometheus(t, all)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, name := range []string{"main", "side"} {
		web.Spec.Template.Spec.Containers = append(web.Spec.Template.Spec.Containers, corev1.Container{Name: name})
	}
	client := fake.NewClientset(web)
	for _, pod := range living {
		check.OK(t, client.Tracker().Add(pod))
	}
	done := 0.0
	report := check.Value(requests.Run(t.Context(), &cluster.Connection{Client: client}, requests.Request{
		Source: cluster.SourceOptions{Address: url}, Namespace: "shop", History: 12 * time.Hour, Rule: requests.DefaultRule(),
		Progress: func(share float64) { done = share }, Clock: clock.RealClock{},
	}))(t)
	check.Equal(t, "the share that is read", 1.0, done)
	check.Equal(t, "the number of workloads", 1, len(report.Workloads))
	// Pods use 100m and 300m, and 1Gi. Three quarters are of main, and the rest of side. Both pods have as many usages, so the 95th
	// percentile is the greater: 225m and 75m. 768Mi and 15 % are 883.2Mi, 256Mi and 15 % are 294.4Mi.
	for i, want := range [][]string{{"150m", "225m", "225m", "884Mi"}, {"50m", "75m", "75m", "295Mi"}} {
		c := report.Workloads[0].Containers[i]
		got := []string{
			c.CPU.Usage.Mean.String(), c.CPU.Usage.P95.String(), c.CPU.RecommendedRequest.String(), c.Memory.RecommendedRequest.String(),
		}
		check.Equal(t, c.Name, want, got)
		// 144 usages in 12 hours, each of five minutes.
		check.Equal(t, "the time that "+c.Name+" was seen for", 12*3600.0, c.CPU.SeenSeconds)
	}
}
