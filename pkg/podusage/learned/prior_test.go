package learned

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// similarPod is the only pod of its workload.
func similarPod(namespace, name, image string, c corev1.Container) *corev1.Pod {
	c.Image = image
	pod := podOf(name, c)
	pod.Namespace, pod.UID = namespace, types.UID(namespace+"/"+name)
	return pod
}

// alike are twelve equal workloads of one image. They show that workloads of an image are alike. Each was observed for an hour and
// counts 60/(60+30), so they weigh 8. The spread of their kind is (0 + 5·1)/(7 + 5) = 0.41667.
func alike(image string, usage float64) map[*corev1.Pod]float64 {
	usages := map[*corev1.Pod]float64{}
	for i := range 12 {
		usages[similarPod("ns", fmt.Sprint(image, i), image+":1", alone("4", ""))] = usage
	}
	return usages
}

// priorsOf has observed each pod for an hour: it used that much cpu, in milliCPU, with no deviation.
func priorsOf(priors Priors, usages map[*corev1.Pod]float64) *Prediction {
	tally := NewTally("", podusage.Amounts{})
	for pod, usage := range usages {
		tally.Add(pod, load.CPU, usage, 0, 1)
	}
	s := (&Statistics{}).WithTally(tally, start, time.Hour, Config{History: day, MaxWorkloads: 1000, Groups: true})
	s.cluster.UsagePerRequest[load.CPU] = 0.5
	return Predictor{
		MinHistory: 30 * time.Minute, Multiplier: 1.5, MaxRequestRatio: 10, Priors: priors, Default: podusage.Amounts{load.CPU: 900},
	}.At(s)
}

// alone has a class and containers that no other pod has, so that the image alone resembles.
func alone(request, limit string) corev1.Container {
	c := container(request, limit)
	c.Name = "alone" + request + limit
	return c
}

func TestPrior_OneSibling(t *testing.T) {
	sibling, pod := similarPod("ns", "web", "shop/api:1", alone("4", "")), similarPod("ns", "canary", "shop/api@sha256:0", alone("1", ""))
	usages := alike("other", 700)
	usages[sibling] = 3000
	// By the spec: mean 500, p95 1,500, and a spread of 1. One workload weighs 2/3, and its group has the spread of its kind. The
	// credibility is 2/3·0.58333 / (2/3·0.58333 + 0.41667) = 0.48276: the mean is 500 + 0.48276·2,500 = 1,706.9. What is left of
	// the spread: 0.41667 + 0.51724·0.58333 = 0.71839. p95 = 1,706.9·(1 + 0.48276·1.64·√0.71839) + 0.51724·1,000 = 3,369.6.
	got := priorsOf(NamespacePriors, usages).Incoming(pod)[load.CPU]
	if math.Abs(got.Mean-1706.9) > 0.1 || math.Abs(got.P95-3369.6) > 0.5 || got.Learned != got.Mean {
		t.Errorf("usage %+v, want a mean of 1,706.9 and a p95 of 3,369.6", got)
	}
	// Nothing shows yet that workloads of an image are alike.
	first := priorsOf(NamespacePriors, map[*corev1.Pod]float64{sibling: 3000})
	if got, want := first.Incoming(pod)[load.CPU], byPeak(500, 1500, 500); got != want {
		t.Errorf("the first image: usage %+v, want %+v", got, want)
	}
}

// Whether workloads of other namespaces are alike changes nothing, by however many of them.
func TestPrior_CredibilityIsOfTheNamespace(t *testing.T) {
	pod := similarPod("ns", "canary", "shop/api", alone("1", ""))
	for name, foreign := range map[string][]float64{
		"none": nil, "some that differ": {16000, 0, 0, 0, 0, 0, 0, 0, 0}, "many that are equal": slices.Repeat([]float64{9}, 100),
	} {
		usages := alike("other", 700)
		usages[similarPod("ns", "web", "shop/api:1", alone("4", ""))] = 3000
		for i, usage := range foreign {
			usages[similarPod("mallory", fmt.Sprint("web-", i), "busybox", alone("4", ""))] = usage
		}
		// As in TestPrior_OneSibling.
		if got := priorsOf(NamespacePriors, usages).Incoming(pod)[load.CPU].Mean; math.Abs(got-1706.9) > 0.1 {
			t.Errorf("beside %s of another namespace, the mean is %v, want 1,706.9", name, got)
		}
	}
}

func TestPrior_ManySiblingsCountMoreThanTheSpec(t *testing.T) {
	pod := similarPod("ns", "canary", "shop/api:2", alone("1", ""))
	// The spread of the group is 2·0.41667/(7+2) = 0.09259, and the credibility 8·0.90741/(8·0.90741 + 0.09259) = 0.98741.
	p := priorsOf(NamespacePriors, alike("shop/api", 3000))
	if got := p.Incoming(pod)[load.CPU].Mean; math.Abs(got-2968.5) > 0.1 {
		t.Errorf("mean %v, want 500 + 0.98741·2,500 = 2,968.5", got)
	}
	x, u := p.Explain(pod)[load.CPU], p.Incoming(pod)[load.CPU]
	if text := fmt.Sprint(x); !strings.Contains(text, "99 % as 12 workloads of image shop/api in its namespace") {
		t.Errorf("explained by %s", text)
	}
	if math.Abs(sumOf(x.Parts)-u.Mean) > 1e-6 || math.Abs(sumOf(x.Peak)-u.P95) > 1e-6 {
		t.Errorf("parts %v of %+v", x, u)
	}
}

func TestPrior_UnlikeSiblingsCountLess(t *testing.T) {
	mean := func(usages ...float64) float64 {
		unlike := map[*corev1.Pod]float64{}
		for i, u := range usages {
			unlike[similarPod("ns", fmt.Sprint("web-", i), "busybox", alone("4", ""))] = u
		}
		return priorsOf(NamespacePriors, unlike).Incoming(similarPod("ns", "new", "busybox", alone("1", "")))[load.CPU].Mean
	}
	if alike, unlike := mean(2000, 2000, 2000, 2000), mean(1, 1, 1, 7997); unlike > 0.5*alike {
		t.Errorf("mean %v of siblings that differ, and %v of equal ones of the same mean", unlike, alike)
	}
	// A spread above that of the spec tells nothing: the usage by the spec is 500.
	if got := mean(0, 0, 0, 0, 0, 0, 0, 0, 16000); got != 500 {
		t.Errorf("mean %v, want that of the spec, 500", got)
	}
}

func TestPrior_NoSiblings(t *testing.T) {
	for _, priors := range []Priors{NoPriors, NamespacePriors, AllPriors} {
		p := priorsOf(priors, map[*corev1.Pod]float64{similarPod("ns", "web", "shop/api:1", alone("4", "")): 3000})
		if got, want := p.Incoming(similarPod("ns", "new", "other", alone("1", "")))[load.CPU], byPeak(500, 1500, 500); got != want {
			t.Errorf("priors %v: usage %+v, want %+v", priors, got, want)
		}
	}
}

// A workload's own history takes over: at half of MinHistory it is half of the usage.
func TestPrior_OwnHistoryTakesOver(t *testing.T) {
	p, pod := priorsOf(NamespacePriors, alike("shop/api", 3000)), similarPod("ns", "canary", "shop/api:2", alone("1", ""))
	before := p.Incoming(pod)[load.CPU].Mean
	observed := Observation{
		Workload: Workload{"ns", "canary"}, Resource: load.CPU, At: start, Span: 15 * time.Minute, Pods: 1, Sum: 1000, SumSquares: 1e6,
	}
	s := p.Statistics.With([]Observation{observed}, p.Statistics.Cluster(), Config{History: day, MaxWorkloads: 100})
	if got, want := p.At(s).Incoming(pod)[load.CPU].Mean, (before+1000)/2; math.Abs(got-want) > 0.1 {
		t.Errorf("mean %v, want %v, between %v and 1,000", got, want, before)
	}
	// The other half, by the weight of 0.98741: 0.49370·3,000 = 1,481.1, and 0.00630·500 = 3.1.
	want := []podusage.Part{
		{Amount: 500, Basis: "50 % by its own workload, observed for 15m0s"},
		{Amount: 1481.1, Basis: "49 % as 12 workloads of image shop/api in its namespace"}, {Amount: 3.1, Basis: "1 % by its spec"},
	}
	if diff := cmp.Diff(want, p.At(s).Explain(pod)[load.CPU].Parts, cmpopts.EquateApprox(0, 0.1), cmpopts.IgnoreUnexported(podusage.Part{})); diff != "" {
		t.Errorf("explained (-want +got):\n%s", diff)
	}
	// Grouped anew, the workload is one of the only image that is like it: it tells nothing more of itself.
	grouped := priorsOf(NamespacePriors, alike("other", 700))
	s = grouped.Statistics.WithTally(tallyOf(pod, 1000), start, 15*time.Minute, Config{History: day, MaxWorkloads: 100, Groups: true})
	s.cluster.UsagePerRequest[load.CPU] = 0.5
	if got := grouped.At(s).Incoming(pod)[load.CPU].Mean; math.Abs(got-750) > 0.1 {
		t.Errorf("mean %v, want 750, between 500 by the spec and 1,000", got)
	}
}

func tallyOf(pod *corev1.Pod, usage float64) *Tally {
	tally := NewTally("", podusage.Amounts{})
	tally.Add(pod, load.CPU, usage, 0, 1)
	return tally
}

// Without a group that resembles the pod, its own history counts all the same.
func TestPrior_OwnHistoryAlone(t *testing.T) {
	pod := similarPod("ns", "canary", "shop/api:2", alone("1", ""))
	s := new(Statistics).WithTally(tallyOf(pod, 3000), start, 15*time.Minute, Config{History: day, MaxWorkloads: 100, Groups: true})
	// The pod requests 1,000.
	for priors, want := range map[Priors]float64{NoPriors: 1000, NamespacePriors: (1000 + 3000) / 2} {
		p := Predictor{MinHistory: 30 * time.Minute, Multiplier: 1.5, MaxRequestRatio: 10, Priors: priors}.At(s)
		if got := p.Incoming(pod)[load.CPU].Mean; math.Abs(got-want) > 1e-3 {
			t.Errorf("priors %v: mean %v, want %v", priors, got, want)
		}
	}
}

// Observations of the past regroup the workloads: the only sibling was observed for an hour, not for five minutes.
func TestPrior_HistoryRegroups(t *testing.T) {
	sibling, pod := similarPod("ns", "web", "shop/api:1", alone("4", "")), similarPod("ns", "canary", "shop/api:1", alone("1", ""))
	p := priorsOf(NamespacePriors, alike("other", 700))
	c := Config{History: day, MaxWorkloads: 100, Groups: true}
	s := p.Statistics.WithTally(tallyOf(sibling, 3000), start, 5*time.Minute, c)
	s = s.With([]Observation{{
		Workload: Workload{"ns", "web"}, Resource: load.CPU, At: start, Span: 55 * time.Minute, Pods: 1, Sum: 3000, SumSquares: 9e6,
	}}, p.Statistics.cluster, c)
	if got := p.At(s).Incoming(pod)[load.CPU].Mean; math.Abs(got-1706.9) > 0.1 { // as in TestPrior_OneSibling
		t.Errorf("mean %v, want 1,706.9", got)
	}
}

// Each namespace counts once, and one foreign namespace at most half, by however many resemblances.
func TestPrior_NamespacesCountOnce(t *testing.T) {
	pod := similarPod("ns", "new", "shop/api:1", alone("1", ""))
	mean := func(priors Priors, workloads int, like corev1.Container) float64 {
		usages := map[*corev1.Pod]float64{}
		for i := range 12 { // images are alike in all namespaces
			usages[similarPod(fmt.Sprint("ns-", i), "web", "other:1", alone("4", ""))] = 700
		}
		for i := range workloads {
			usages[similarPod("mallory", fmt.Sprint("web-", i), "shop/api:1", like)] = 5000
		}
		return priorsOf(priors, usages).Incoming(pod)[load.CPU].Mean
	}
	// By its credibility, 0.58333, it would count more: see alike.
	for _, workloads := range []int{2, 99} {
		for _, like := range []corev1.Container{alone("2", ""), alone("1", "")} { // of another class and container, and of the same
			if got := mean(AllPriors, workloads, like); math.Abs(got-(500+5000)/2) > 1e-3 {
				t.Errorf("mean %v by %d workloads of a foreign namespace, want half of the way from 500 to 5,000", got, workloads)
			}
		}
	}
	if got := mean(NamespacePriors, 99, alone("1", "")); got != 500 {
		t.Errorf("mean %v by a foreign namespace, want 500: priors of the namespace alone", got)
	}
}

// A group of three namespaces counts at most 3/4, and so do both with that of one of them.
func TestPrior_MostForeign(t *testing.T) {
	p := prior{foreign: [resemblances]foreignShare{byContainer: {3, 0.75}}}
	if got := p.maxForeign(1); got != 0 {
		t.Errorf("a share of %v for a group of one of three namespaces that have theirs, want 0", got)
	}
	p.foreign[byContainer].share = 0.6
	// 0.6 + 0.4 · share ≤ 0.75
	if got := p.maxForeign(1); math.Abs(got-0.375) > 1e-9 {
		t.Errorf("a share of %v, want 0.375", got)
	}
}

// Priors give a pod no more than its claim: ten times its request here. To others it counts no more than that either.
func TestPrior_NeverAboveTheClaim(t *testing.T) {
	p := priorsOf(AllPriors, alike("shop/api", 8000))
	for _, c := range []corev1.Container{alone("1m", ""), alone("1m", "10m"), alone("1m", "1k")} {
		pod := similarPod("ns", "new", "shop/api:1", c)
		u := p.OnNode(pod)
		for name, got := range map[string]Usage{"starting": u.Starting[load.CPU], "steady": u.Steady[load.CPU], "foreign": u.Foreign[load.CPU]} {
			if got.P95 > 10 || got.Mean > 10 || got.Variance > 25 {
				t.Errorf("%s %s: %+v, want a claim of at most 10", c.Name, name, got)
			}
		}
	}
	requestless := similarPod("ns", "new", "shop/api:1", alone("", ""))
	if u := p.OnNode(requestless); u.Starting[load.CPU].P95 > 900 || u.Steady[load.CPU] != (Usage{}) || u.Foreign[load.CPU] != (Usage{}) {
		t.Errorf("without requests: %+v, want at most the default of 900, and nothing after startup", u)
	}
}

func TestLikeness(t *testing.T) {
	p := priorsOf(AllPriors, map[*corev1.Pod]float64{similarPod("a", "x", "x", alone("1", "")): 1})
	secret := p.Statistics.key
	base := func() *corev1.Pod {
		pod := similarPod("ns", "web", "registry:5000/shop/api:1", alone("1", ""))
		pod.Labels = map[string]string{AppLabel: "api"}
		return pod
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []resemblance
	}{
		{"nothing", func(*corev1.Pod) {}, []resemblance{byClass, byContainer, byApp, byImage}},
		{"the tag", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry:5000/shop/api" }, []resemblance{byClass, byContainer, byApp, byImage}},
		{"the digest", func(p *corev1.Pod) { p.Spec.Containers[0].Image += "@sha256:00" }, []resemblance{byClass, byContainer, byApp, byImage}},
		{"the repository", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry:5000/shop/web:1" }, []resemblance{byClass, byContainer, byApp}},
		{"the container", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" }, []resemblance{byClass, byApp, byImage}},
		{"sidecar", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"})
		}, []resemblance{byClass, byContainer, byApp, byImage}},
		{"sidecar before it", func(p *corev1.Pod) {
			p.Annotations = map[string]string{defaultContainer: p.Spec.Containers[0].Name}
			p.Spec.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy"}}, p.Spec.Containers...)
		}, []resemblance{byClass, byContainer, byApp, byImage}},
		{"the application", func(p *corev1.Pod) { p.Labels[AppLabel] = "web" }, []resemblance{byClass, byContainer, byImage}},
		{"the component", func(p *corev1.Pod) { p.Labels[componentLabel] = "db" }, []resemblance{byClass, byContainer, byImage}},
		{"the priority class", func(p *corev1.Pod) { p.Spec.PriorityClassName = "batch" }, []resemblance{byContainer, byApp, byImage}},
		{"the owner's kind", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, []resemblance{byContainer, byApp, byImage}},
		{"the request, by a power of two", func(p *corev1.Pod) { p.Spec.Containers[0] = withImage(container("3", ""), p) }, []resemblance{byApp, byImage}},
	} {
		pod := base()
		tt.change(pod)
		a, b := likenessOf(secret, base()), likenessOf(secret, pod)
		var same []resemblance
		for by := range resemblances {
			if a.names[by] == b.names[by] {
				same = append(same, by)
			}
			if keys := by.joined(base()) == by.joined(pod); keys != (a.names[by] == b.names[by]) {
				t.Errorf("another %s: the key is equal: %t, the hash is not", tt.name, keys)
			}
		}
		if fmt.Sprint(same) != fmt.Sprint(tt.want) {
			t.Errorf("another %s: alike by %v, want %v", tt.name, same, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { likenessOf(secret, base3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestChartName(t *testing.T) {
	for label, want := range map[string]string{
		"shop-1.4.0": "shop", "shop-1.5.0-rc.1": "shop", "cert-manager-v1.15.0": "cert-manager", "log4j-2-0.1.0": "log4j-2", "shop": "shop",
		"shop-": "shop-", "": "",
	} {
		if got := chartName(label); got != want {
			t.Errorf("%q is of chart %q, want %q", label, got, want)
		}
	}
}

var base3 = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{AppLabel: "api"}},
	Spec:       corev1.PodSpec{Containers: []corev1.Container{container("1", ""), container("2", "")}},
}

func withImage(c corev1.Container, p *corev1.Pod) corev1.Container {
	c.Image = p.Spec.Containers[0].Image
	return c
}

// Beyond MaxGroups, the groups of the shortest observation go.
func TestGroups_Bounded(t *testing.T) {
	var sums []*groupSums
	for i := range MaxGroups + 10 {
		sums = append(sums, &groupSums{hash: uint64(i + 1), podSeconds: float64(i)})
	}
	g := newGroups(sums)
	if _, ok := g.byHash[10]; ok || len(g.byHash) != MaxGroups {
		t.Errorf("%d groups, the tenth least used is there: %t; want %d without it", len(g.byHash), ok, MaxGroups)
	}
	if _, ok := g.byHash[11]; !ok {
		t.Error("a more used group has gone")
	}
}

// BenchmarkWithTally is one refresh of the statistics of 20,000 workloads in 200 namespaces.
func BenchmarkWithTally(b *testing.B) {
	tally := NewTally("", podusage.Amounts{})
	for i := range 20000 {
		pod := similarPod(fmt.Sprint("ns-", i%200), fmt.Sprint("web-", i), fmt.Sprint("image-", i%5000, ":1"), alone("1", ""))
		tally.Add(pod, load.CPU, float64(i%1000), 1000, 1)
	}
	for _, groups := range []bool{false, true} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			c := Config{History: day, MaxWorkloads: 20000, Groups: groups}
			s := (&Statistics{}).WithTally(tally, start, 5*time.Minute, c)
			b.ReportAllocs()
			for b.Loop() {
				s.WithTally(tally, start, 5*time.Minute, c)
			}
		})
	}
}

// BenchmarkOnNode is the prediction for a pod with history on a node, with and without a cap.
func BenchmarkOnNode(b *testing.B) {
	pod := similarPod("ns", "web", "shop/api:1", alone("1", ""))
	tally := NewTally("", podusage.Amounts{})
	tally.Add(pod, load.CPU, 3600, 3600, 1)
	tally.Add(pod, load.Memory, 3600, 3600, 1)
	s := (&Statistics{}).WithTally(tally, start, time.Hour, Config{History: day, MaxWorkloads: 1})
	for name, ratio := range map[string]float64{"capped": 4, "uncapped": math.Inf(1)} {
		b.Run(name, func(b *testing.B) {
			p := Predictor{MinHistory: 30 * time.Minute, Multiplier: 1.5, MaxRequestRatio: ratio}.At(s)
			b.ReportAllocs()
			for b.Loop() {
				p.OnNode(pod)
			}
		})
	}
}

// BenchmarkIncoming is the prediction for a pod without history, by its spec and by priors.
func BenchmarkIncoming(b *testing.B) {
	pod := similarPod("ns", "new", "shop/api:1", alone("1", ""))
	for name, priors := range map[string]Priors{"none": NoPriors, "all": AllPriors} {
		b.Run(name, func(b *testing.B) {
			p := priorsOf(priors, alike("shop/api", 3000))
			b.ReportAllocs()
			for b.Loop() {
				p.Incoming(pod)
			}
		})
	}
}
