package provider

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// served has a scheduler's provider and a command's, which reads from the first. Each has the same objects and configuration.
type served struct {
	scheduler, command       *Provider
	ofScheduler, ofCommand   *reading.Reader
	statistics, ofStatistics *learned.Publisher
	pods                     []*corev1.Pod
	// err, if set, is the command's answer instead. ahead is how far the scheduler's clock is ahead.
	err   error
	ahead time.Duration
	h     handle
}

var servedNow = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

func newServed(t *testing.T, command config.LoadSpec) *served {
	s, clock := &served{}, testingclock.NewFakeClock(servedNow)
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{Host: "127.0.0.1:1"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Status: corev1.NodeStatus{
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")},
	}}
	node.Status.Allocatable = node.Status.Capacity
	check.OK(t, h.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node))
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
			{Kind: "StatefulSet", Name: strings.TrimRight(name, "-12"), Controller: new(true)},
		}}}
		pod.Spec.NodeName = "n0"
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": resource.MustParse("400m"), "memory": resource.MustParse("1Gi"),
		}}}}
		started := metav1.NewTime(servedNow.Add(-time.Hour))
		if name == "db-1" {
			started.Time = servedNow.Add(-time.Minute)
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started}
		check.OK(t, h.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod))
		s.pods = append(s.pods, pod)
	}
	s.scheduler = NewOnDemand(clock, metrics.NewKubeRegistry(), sources.Account{}, nil) // no watcher disturbs it
	s.command = NewOnDemand(clock, metrics.NewKubeRegistry(), sources.Account{}, func(_ context.Context, statistics bool) (*Served, error) {
		if s.err != nil {
			return nil, s.err
		}
		of, err := s.scheduler.Serve(statistics)
		check.OK(t, err)
		text := check.Value(json.Marshal(of))(t)
		if strings.Contains(string(text), "secret") {
			t.Errorf("a credential is served: %s", text)
		}
		var decoded Served
		check.OK(t, json.Unmarshal(text, &decoded))
		decoded.Time = decoded.Time.Add(s.ahead)
		return &decoded, nil
	})
	open := func(p *Provider, spec config.LoadSpec) (*reading.Reader, *learned.Publisher) {
		request := reading.ForLoad(spec, podusage.ByRequests{})
		publisher, err := openStatistics(t, p, h, spec, statisticsSpec())
		check.OK(t, err)
		return check.Value(p.Open(t.Context(), h, request))(t), publisher
	}
	s.h = h
	s.ofScheduler, s.statistics = open(s.scheduler, secretSpec())
	s.ofCommand, s.ofStatistics = open(s.command, command)
	return s
}

func secretSpec() config.LoadSpec {
	spec := prometheusSpec()
	spec.MetricProvider.Address, spec.MetricProvider.Token = "http://127.0.0.1:1", "secret"
	return spec
}

// measure publishes random load, of which every field differs from zero and some are absent.
func (s *served) measure() *load.Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	tables, means := map[load.Quantile]*load.Table{}, map[time.Duration]*load.Table{}
	index := load.NewIndex([]string{"n0", "n1", "n2"})
	random := func(node string) (n load.NodeLoad) {
		for of := range n {
			if node == "n2" && of == int(load.Memory) {
				continue // not measured
			}
			n[of] = load.Measurement{
				Stat:   load.Stat{Mean: r.Float64(), StdDev: r.Float64(), Span: time.Duration(r.Int64N(1e9)), Known: true},
				Window: time.Duration(r.Int64N(3e11)), End: servedNow.Add(-time.Duration(r.Int64N(1e9))), Lag: time.Duration(r.Int64N(1e9)),
				Drift: r.Float64(),
			}
		}
		if node == "n1" {
			n[load.CPU].StdDev = math.NaN()
		}
		return n
	}
	means[5*time.Minute] = load.NewTable(index, random)
	tables[load.Quantile{Window: time.Hour, Fraction: 0.95}] = load.NewTable(index, random)
	snapshot := load.NewSnapshot(index, means, map[string]load.MetricTable{"x": {"n1": {Value: 1 / 3.0, End: servedNow}}}).WithQuantiles(tables)
	s.scheduler.sources[0].watcher.Publisher().Publish(snapshot)
	tally := learned.NewTally("", podusage.Amounts{})
	for _, pod := range s.pods {
		tally.Add(pod, load.CPU, 300*r.Float64(), 400, 1)
		tally.Add(pod, load.Memory, 1e9*r.Float64(), 2<<30, 1)
	}
	s.statistics.Publish((&learned.Statistics{}).WithTally(tally, servedNow, 5*time.Minute, learned.Config{History: time.Hour, MaxWorkloads: 10}))
	return snapshot
}

// TestServed_IsWhatDecides compares all that a command reads with what the scheduler decides by, to the last bit.
func TestServed_IsWhatDecides(t *testing.T) {
	withoutToken := secretSpec() // as where the scheduler has it in its environment
	withoutToken.MetricProvider.Token = ""
	s := newServed(t, withoutToken)
	want := s.measure()
	s.command.Refresh(t.Context())
	check.OK(t, s.command.ServedErr())
	got := s.command.sources[0].watcher.Publisher().Latest()
	check.Equal(t, "tables", want.Statistics(), got.Statistics())
	for _, of := range want.Statistics() {
		for _, node := range want.Index().Names() {
			if diff := cmp.Diff(want.Table(of).Node(node), got.Table(of).Node(node), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%v of %s (-scheduler +command):\n%s", of, node, diff)
			}
		}
	}
	row, _ := got.Index().Row("n1")
	value, end := got.Metric("x").Row(row)
	check.Equal(t, "node metric", 1/3.0, value)
	check.Equal(t, "its time", servedNow.UnixNano(), end)
	predictor := learned.Predictor{MaxRequestRatio: 10, Multiplier: 1.5}
	for _, pod := range s.pods {
		scheduler, command := predictor.At(s.statistics.Latest()), predictor.At(s.ofStatistics.Latest())
		if scheduler.OnNode(pod) != command.OnNode(pod) || scheduler.Incoming(pod) != command.Incoming(pod) || scheduler.Incoming(pod)[0].Learned == 0 {
			t.Errorf("%s: scheduler %+v %+v\ncommand %+v %+v", pod.Name, scheduler.OnNode(pod), scheduler.Incoming(pod), command.OnNode(pod), command.Incoming(pod))
		}
	}
}

// TestServed_LeavesTheCycleItsSnapshot serves while a scheduling cycle runs, after load was published that the cycle must not see.
func TestServed_LeavesTheCycleItsSnapshot(t *testing.T) {
	s := newServed(t, secretSpec())
	first, cycle := s.measure(), framework.NewCycleState()
	check.Equal(t, "snapshot of the cycle", true, s.ofScheduler.Snapshots().ForCycle(cycle) == first)
	s.measure()
	check.Value(s.scheduler.Serve(true))(t)
	check.Equal(t, "statistics, where none are asked for", 0, len(check.Value(s.scheduler.Serve(false))(t).Statistics))
	check.Equal(t, "snapshot of the cycle, after serving", true, s.ofScheduler.Snapshots().ForCycle(cycle) == first)
}

// TestServed_Adopted_Ends expects that nothing ended later than now by the command's clock, which may be behind the scheduler's.
func TestServed_Adopted_Ends(t *testing.T) {
	s := newServed(t, secretSpec())
	m := load.Measurement{Stat: load.Stat{Mean: 0.5, Known: true}, Window: 5 * time.Minute, End: servedNow.Add(9 * time.Second)}
	table := load.NewTable(load.NewIndex([]string{"n0"}), func(string) load.NodeLoad { return load.NodeLoad{m, m} })
	of := load.MetricTable{"n0": {Value: 1, End: m.End}}
	s.scheduler.sources[0].watcher.Publisher().Publish(
		load.NewSnapshot(table.Index(), map[time.Duration]*load.Table{5 * time.Minute: table}, map[string]load.MetricTable{"x": of}))
	s.ahead = 9 * time.Second
	s.command.RefreshLoad(t.Context())
	check.OK(t, s.command.ServedErr())
	got := s.command.sources[0].watcher.Publisher().Latest()
	check.Equal(t, "end", servedNow, got.Over(5 * time.Minute).Node("n0")[load.CPU].End)
	_, end := got.Metric("x").Row(0)
	check.Equal(t, "end of the metric", servedNow.UnixNano(), end)
}

// TestServed_NotUsed has a scheduler that cannot be asked, one with other settings or another clock, one that has no load yet, one that
// lacks a metric, and one whose sources differ by their tokens alone.
func TestServed_NotUsed(t *testing.T) {
	other := secretSpec()
	other.MetricProvider.Selector = `{job="x"}`
	twoTokens := secretSpec()
	twoTokens.MetricProvider.Token = "secret-2"
	const lacks = "the scheduler does not read Prometheus with these settings"
	for _, tt := range []struct {
		name   string
		spec   config.LoadSpec
		change func(*served)
		want   string
	}{
		{"no permission", secretSpec(), func(s *served) { s.err = errors.New("forbidden") }, "forbidden"},
		{"another selector", other, func(*served) {}, lacks},
		{"no load yet", secretSpec(), nil, lacks},
		{"a clock that is ahead", secretSpec(), func(s *served) { s.ahead = 11 * time.Second }, "its clock and this machine's differ by 11s"},
		{"a clock that is behind", secretSpec(), func(s *served) { s.ahead = -11 * time.Second }, "its clock and this machine's differ by 11s"},
		{"another node metric", secretSpec(), func(s *served) {
			check.Value(s.command.Open(t.Context(), s.h, reading.Request{Spec: secretSpec(), Metrics: []string{"y"}}))(t)
		}, lacks},
		{"two tokens", secretSpec(), func(s *served) {
			check.Value(s.scheduler.Open(t.Context(), s.h, reading.ForLoad(twoTokens, podusage.ByRequests{})))(t)
		}, lacks},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServed(t, tt.spec)
			if tt.change != nil {
				s.measure()
				tt.change(s)
			}
			s.command.RefreshLoad(t.Context())
			if err := s.command.ServedErr(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			of := s.command.Sources()[0]
			if of.Adopted || of.Err == nil || !strings.Contains(of.Err.Error(), "127.0.0.1:1") {
				t.Errorf("source %+v, want the error of reading it here", of)
			}
		})
	}
}

// BenchmarkServe answers for 5,000 nodes and 100,000 pods of 5,000 workloads.
func BenchmarkServe(b *testing.B) {
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{Host: "127.0.0.1:1"}}
	tally, names := learned.NewTally("", podusage.Amounts{}), make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[i]}}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("128Gi")}
		check.OK(b, h.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node))
		for p := range 20 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web-%d-%d", i, p), OwnerReferences: []metav1.OwnerReference{
				{Kind: "StatefulSet", Name: fmt.Sprintf("web-%d", (i*20+p)%5000), Controller: new(true)},
			}}}
			pod.UID, pod.Spec.NodeName = types.UID(fmt.Sprintf("6b1c0f5e-0000-4000-8000-%012d", i*20+p)), names[i]
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: servedNow.Add(-time.Hour)}}
			check.OK(b, h.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod))
			tally.Add(pod, load.CPU, 300+float64(i%97)/7, 400, 1)
			tally.Add(pod, load.Memory, 1e9+float64(i%89)/7, 2<<30, 1)
		}
	}
	p := NewOnDemand(testingclock.NewFakeClock(servedNow), metrics.NewKubeRegistry(), sources.Account{}, nil)
	request := reading.ForLoad(secretSpec(), podusage.ByRequests{})
	p.mu.Lock()
	publisher, err := p.publisher(b.Context(), clusterOf(h), secretSpec(), statisticsSpec())
	p.mu.Unlock()
	check.OK(b, err)
	_, err = p.Open(b.Context(), h, request)
	check.OK(b, err)
	m := load.Measurement{Stat: load.Stat{Mean: 1 / 3.0, StdDev: 1 / 7.0, Known: true}, Window: 5 * time.Minute, End: servedNow, Drift: 1 / 30.0}
	table := load.NewTable(load.NewIndex(names), func(string) load.NodeLoad { return load.NodeLoad{m, m} })
	p.sources[0].watcher.Publisher().Publish(load.NewSnapshot(table.Index(), map[time.Duration]*load.Table{5 * time.Minute: table}, nil))
	publisher.Publish((&learned.Statistics{}).WithTally(tally, servedNow, 5*time.Minute, learned.Config{History: time.Hour, MaxWorkloads: 20000}))
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		served := check.Value(p.Serve(true))(b)
		var body bytes.Buffer
		zip := gzip.NewWriter(&body)
		check.OK(b, json.NewEncoder(zip).Encode(served))
		check.OK(b, zip.Close())
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(body.Len())/(1<<20), "MiB-sent")
	}
}
