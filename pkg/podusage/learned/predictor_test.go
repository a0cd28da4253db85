package learned

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// container states the cpu request and limit that are not empty.
func container(request, limit string) corev1.Container {
	c := corev1.Container{Name: "c" + request + limit}
	if request != "" {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	}
	if limit != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return c
}

// podOf has an owner unless that is empty.
func podOf(owner string, containers ...corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Containers: containers}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, Controller: new(true)}}
	}
	return pod
}

// predictor knows the workload steady, of which one pod was observed for an hour: 1,000 milliCPU, deviation 100.
func predictor(usagePerRequest float64) *Prediction {
	observation := Observation{
		Workload: Workload{"ns", "steady"}, Resource: load.CPU, At: time.Unix(1e9, 0), Span: time.Hour,
		Pods: 1, Sum: 1000, SumSquares: 1000*1000 + 100*100,
	}
	snapshot := (&Statistics{}).With([]Observation{observation},
		ClusterUsage{UsagePerRequest: [load.ResourceCount]float64{load.CPU: usagePerRequest}},
		Config{History: 24 * time.Hour, MaxWorkloads: 10})
	return Predictor{MinHistory: time.Hour, Multiplier: 1.5, Default: podusage.Amounts{load.CPU: 900, load.Memory: 300}, MaxRequestRatio: 10}.At(snapshot)
}

// usage is a usage without a startup.
func usage(mean, p95, variance, learned float64) Usage {
	return Usage{Mean: mean, P95: p95, Variance: variance, Learned: learned}
}

// byPeak is a usage without history: its variance follows from the rest.
func byPeak(mean, p95, learned float64) Usage {
	deviation := (p95 - mean) / 1.64
	return Usage{Mean: mean, P95: p95, Variance: deviation * deviation, Learned: learned}
}

func TestPrediction(t *testing.T) {
	down := func(pod *corev1.Pod) *corev1.Pod {
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			})
		}
		return pod
	}
	later := func(p *Prediction) *Prediction { p.MinHistory += time.Second; return p }
	for _, tc := range []struct {
		name      string
		predictor *Prediction
		pod       *corev1.Pod
		// Expected cpu, of the pod to place. Of a pod on a node, at first and in its steady state.
		incoming, onNode, steady Usage
	}{
		{
			name: "a workload is expected to use what it used", predictor: predictor(0.5), pod: podOf("steady", container("4", "")),
			// 1,000 + 1.64·100
			incoming: usage(1000, 1164, 10000, 1000), onNode: usage(1000, 1164, 10000, 1000), steady: usage(1000, 1164, 10000, 1000),
		},
		{
			name: "its peak is at most its limit", predictor: predictor(0.5), pod: podOf("steady", container("500m", "1100m")),
			incoming: usage(1000, 1100, 10000, 1000), onNode: usage(1000, 1100, 10000, 1000), steady: usage(1000, 1100, 10000, 1000),
		},
		{
			name: "its peak is at least its mean", predictor: predictor(0.5), pod: podOf("steady", container("500m", "500m")),
			incoming: usage(1000, 1000, 10000, 1000), onNode: usage(1000, 1000, 10000, 1000),
			// Not observed itself, it counts at most its limit after it has started.
			steady: usage(500, 500, 10000, 500),
		},
		{
			name: "what was observed for too short a time has no history", predictor: later(predictor(0.5)), pod: podOf("steady", container("4", "")),
			// 0.5·4,000 and 1.5·4,000
			incoming: byPeak(2000, 6000, 2000), onNode: byPeak(2000, 6000, 2000), steady: byPeak(2000, 6000, 2000),
		},
		{
			name: "without history the limit is the peak", predictor: predictor(0.5), pod: podOf("new", container("1", "2")),
			incoming: byPeak(500, 2000, 500), onNode: byPeak(500, 2000, 500), steady: byPeak(500, 2000, 500),
		},
		{
			name: "on a node up to ten times the request", predictor: predictor(0.5), pod: podOf("", container("1m", "1k")),
			incoming: byPeak(0.5, 1e6, 0.5), onNode: byPeak(0.5, 10, 0.5), steady: byPeak(0.5, 10, 0.5),
		},
		{
			name: "where the cluster's usage is not known the mean is the request", predictor: predictor(0), pod: podOf("", container("1", "")),
			incoming: byPeak(1000, 1500, 0), onNode: byPeak(1000, 1500, 0), steady: byPeak(1000, 1500, 0),
		},
		{
			name: "the mean is at most the peak", predictor: predictor(2), pod: podOf("", container("1", "")),
			incoming: byPeak(1500, 1500, 1500), onNode: byPeak(1500, 1500, 1500), steady: byPeak(1500, 1500, 1500),
		},
		{
			name: "containers without requests count the default, on a node once and for a time", predictor: predictor(0.5), pod: podOf("", container("", ""), container("", ""), container("1", "")),
			// Two of 900 as if they requested 1,200: 0.5·2,200 and 1,800 + 1,500. One: 0.5·1,600 and 900 + 1,500. None: 500 and 1,500.
			incoming: byPeak(1100, 3300, 500), onNode: byPeak(800, 2400, 500), steady: byPeak(500, 1500, 500),
		},
		{
			name: "a pod on a node whose containers fail uses nothing", predictor: predictor(0.5), pod: down(podOf("steady", container("4", ""))),
			incoming: usage(1000, 1164, 10000, 1000),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.predictor
			u := p.OnNode(tc.pod)
			got := []Usage{p.Incoming(tc.pod)[load.CPU], u.Starting[load.CPU], u.Steady[load.CPU], u.Foreign[load.CPU]}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-3*max(math.Abs(a), 1) })
			check.Equal(t, "usages to place, on a node, steady and to others", []Usage{tc.incoming, tc.onNode, tc.steady, tc.steady}, got, near)
			// Memory has no request: the default of 300 during startup, and nothing afterwards.
			wantChanges := tc.onNode != Usage{}
			if memory := u.Starting[load.Memory].P95; u.Changes() != wantChanges || wantChanges && memory != 300 ||
				u.Steady[load.Memory] != (Usage{}) {
				t.Errorf("changes: %v; memory on a node %v, steady %v", u.Changes(), u.Starting[load.Memory], u.Steady[load.Memory])
			}
			usage, byDefault := p.PendingUsage(tc.pod)
			mean := u.Starting[load.CPU].Mean
			if got, want := [2]float64{usage[load.CPU], byDefault[load.CPU]}, [2]float64{mean, mean - u.Foreign[load.CPU].Mean}; got != want {
				t.Errorf("PendingUsage and its default %v, want the mean and what others do not see of it %v", got, want)
			}
			if got, want := p.Estimate(tc.pod)[load.CPU], p.Incoming(tc.pod)[load.CPU].Mean; got != want {
				t.Errorf("Estimate %v, want the mean %v", got, want)
			}
		})
	}
}

func TestUsage_Within(t *testing.T) {
	u := Usage{Mean: 600, P95: 2000, Variance: 1e6, Learned: 500, Startup: 1000}
	// The largest variance of values in [0, 1,000] is 500².
	check.Equal(t, "within 1,000", Usage{Mean: 600, P95: 1000, Variance: 250000, Learned: 500, Startup: 400}, u.Within(1000))
	check.Equal(t, "within 4,000", u, u.Within(4000))
	check.Equal(t, "within nothing", Usage{}, u.Within(0))
	for _, tc := range []struct{ usage, want Usage }{
		{Usage{Mean: 600, P95: 900, Variance: 1e4, Learned: 500}, Usage{Mean: 600, P95: 900, Variance: 1e4, Learned: 500}},
		{Usage{Mean: 600, P95: 900, Variance: 1e6, Learned: 500}, Usage{Mean: 600, P95: 900, Variance: 250000, Learned: 500}},
		{Usage{Mean: 600, P95: 2000, Variance: 1e4, Learned: 500}, Usage{Mean: 600, P95: 1000, Variance: 1e4, Learned: 500}},
	} {
		check.Equal(t, fmt.Sprint(tc.usage, " within 1,000"), tc.want, tc.usage.Within(1000))
	}
}

func TestPrediction_KnownWorkloadDoesNotAllocate(t *testing.T) {
	p := predictor(0.5)
	p.Default = podusage.Amounts{}
	observation := Observation{Workload: Workload{"ns", "steady"}, Resource: load.Memory, At: time.Unix(1e9, 0), Span: time.Hour, Pods: 1, Sum: 1, SumSquares: 1}
	prediction := p.At(p.Statistics.With([]Observation{observation}, ClusterUsage{}, Config{History: 24 * time.Hour, MaxWorkloads: 10}))
	pod := podOf("steady", container("4", ""))
	check.Equal(t, "allocations", 0, testing.AllocsPerRun(100, func() { prediction.OnNode(pod) }))
}

func TestPrediction_Explain(t *testing.T) {
	for _, tt := range []struct {
		name       string
		prediction *Prediction
		pod        *corev1.Pod
		want       podusage.Breakdown
	}{
		{"a workload with history", predictor(0.5), podOf("steady", container("4", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1000, Basis: "statistics of workload ns/steady, observed for 1h0m0s of its pods' time"}},
			Peak:  []podusage.Part{{Amount: 1000, Basis: "mean"}, {Amount: 164, Basis: "1.64 deviations of the workload's pods"}},
		}},
		{"a limit bounds its peak", predictor(0.5), podOf("steady", container("500m", "1100m")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1000, Basis: "statistics of workload ns/steady, observed for 1h0m0s of its pods' time"}},
			Peak:  []podusage.Part{{Amount: 1000, Basis: "mean"}, {Amount: 100, Basis: "1.64 deviations of the workload's pods, up to the limit of the pod"}},
		}},
		// 900 is the default of the peak; 900/1.5 is assumed for the mean.
		{"without history", predictor(0.5), podOf("", container("1", ""), container("", "")), podusage.Breakdown{
			Parts: []podusage.Part{
				{Amount: 500, Basis: "0.50, the cluster's usage per request, × request of the pod, which has no history"},
				{Amount: 300, Basis: "0.50, the cluster's usage per request, × assumed for containers without limit and request"},
			},
			Peak: []podusage.Part{{Amount: 1500, Basis: "1.5 × request of container c1"}, {Amount: 900, Basis: "default: container c has neither limit nor request"}},
		}},
		{"without a request", predictor(0), podOf("", container("", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 600, Basis: "assumed for containers without limit and request"}},
			Peak:  []podusage.Part{{Amount: 900, Basis: "default: container c has neither limit nor request"}},
		}},
		{"the mean is at most the peak", predictor(2), podOf("", container("1", "")), podusage.Breakdown{
			Parts: []podusage.Part{{Amount: 1500, Basis: "peak, which the mean cannot pass"}},
			Peak:  []podusage.Part{{Amount: 1500, Basis: "1.5 × request of container c1"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.prediction.Explain(tt.pod)[load.CPU]
			// Numbers are kept as float32.
			text := func(x podusage.Breakdown) (lines []string) {
				for _, p := range append(x.Parts, x.Peak...) {
					lines = append(lines, fmt.Sprintf("%.2f %s", p.Amount, p.Basis))
				}
				return lines
			}
			check.Equal(t, "result", text(tt.want), text(got))
			usages := tt.prediction.Incoming(tt.pod)
			for name, sum := range map[float64]float64{usages[load.CPU].Mean: sumOf(got.Parts), usages[load.CPU].P95: sumOf(got.Peak)} {
				if math.Abs(name-sum) > 1e-6 {
					t.Errorf("the parts add up to %g, want %g", sum, name)
				}
			}
		})
	}
}

func sumOf(parts []podusage.Part) (sum float64) {
	for _, p := range parts {
		sum += p.Amount
	}
	return sum
}
