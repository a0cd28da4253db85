// Package history reads a cluster's nodes and pods from Prometheus, as the input of a replay. Requests, owners and usage are from
// kube-state-metrics and cAdvisor.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// Config selects a server and a time.
type Config struct {
	// Address is the server's http(s) URL.
	Address string
	HTTP    httpclient.Config
	// End is the end of the history, and Since its length, in [MinSince, MaxSince].
	End   time.Time
	Since time.Duration
}

// Bounds of Config.Since.
const (
	MinSince = time.Hour
	MaxSince = 7 * 24 * time.Hour
)

// Bounds of one response: an hour of 100,000 pods is some 60 MB.
const (
	maxResponseBytes = 256 << 20
	maxSeries        = 500_000
	// maxValue is far above any node's cores and bytes, and keeps sums finite.
	maxValue = 1e15
)

// Result is a cluster's history.
type Result struct {
	Input *input.Input
	// Missing names the missing data and the skipped pods.
	Missing []string
}

const chunk = time.Hour

// The queries yield one series per node or pod, also if two jobs scrape it. They do so after kube-state-metrics was replaced within
// the hour, too. Containers differ by id, so that usage is complete after a restart. A pod has a limit if each of its containers
// has one.
const (
	capacityQuery = `max by (node, resource) (last_over_time(kube_node_status_capacity{resource=~"cpu|memory|hugepages_.+"}[1h]))`
	zoneQuery     = `last_over_time(kube_node_labels{label_topology_kubernetes_io_zone!=""}[1h])`
	ownerQuery    = `last_over_time(kube_pod_owner{owner_is_controller="true"}[1h])`
	createdQuery  = `last_over_time(kube_pod_created[1h])`
	byContainer   = `max by (namespace, pod, container, resource) `
	requests      = byContainer + `(last_over_time(kube_pod_container_resource_requests{resource=~"cpu|memory"}[1h]))`
	requestQuery  = `sum by (namespace, pod, resource) (` + requests + `)`
	limits        = byContainer + `(last_over_time(kube_pod_container_resource_limits{resource=~"cpu|memory"}[1h]))`
	containers    = `max by (namespace, pod, container) (last_over_time(kube_pod_container_info[1h]))`
	limited       = `count by (namespace, pod, resource) (` + limits + `)`
	limitQuery    = `sum by (namespace, pod, resource) (` + limits + `) and ` + limited +
		` >= on (namespace, pod) group_left () count by (namespace, pod) (` + containers + `)`
	cpuQuery = `sum by (namespace, pod) (max by (namespace, pod, container, id) (` +
		`rate(container_cpu_usage_seconds_total{container!="", container!="POD"}[5m])))`
	memoryQuery = `sum by (namespace, pod) (max by (namespace, pod, container) (` +
		`container_memory_working_set_bytes{container!="", container!="POD"}))`
)

type pod struct {
	namespace, name      string
	ownerKind, ownerName string
	// created are times since the start of the history, negative for older pods. There is one for each pod of the name, as in a
	// StatefulSet.
	created          []time.Duration
	requests, limits input.Amounts
	// usage is in milliCPU, by step from first on; NaN is unknown.
	first int
	usage []float32
	// memory is the sum of memorySamples samples, in bytes.
	memory        float64
	memorySamples int
}

type node struct {
	input.Node
	// hugePages are amounts of memory by resource.
	hugePages map[string]float64
}

type reader struct {
	client *response.Client
	start  time.Time
	length time.Duration
	nodes  map[string]*node
	pods   map[[2]string]*pod
	// read is the number of series by query.
	read map[string]int
	// rejected is the number of values that cannot have been measured.
	rejected int
}

// Read reads the history. It fails without nodes or usage of pods; History.Missing names other missing data.
func Read(ctx context.Context, c Config) (*Result, error) {
	client, err := response.NewClient(c.Address, response.RangeQuery, c.HTTP)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	length := c.Since.Truncate(input.TraceStep)
	r := &reader{
		client: client, length: length, start: c.End.Truncate(time.Second).Add(-length),
		nodes: map[string]*node{}, pods: map[[2]string]*pod{}, read: map[string]int{},
	}
	if err := r.readAll(ctx); err != nil {
		return nil, err
	}
	return r.history()
}

type query struct {
	promql string
	// inEachStep queries are evaluated in each step, others at the end of each chunk.
	inEachStep bool
	// missing is the effect of a result without series; empty for required metrics.
	missing string
	store   func(r *reader, labels map[string]string, at time.Duration, value float64)
}

func queries() []query {
	const ksm = " of kube-state-metrics"
	return []query{
		{promql: capacityQuery, store: (*reader).storeCapacity},
		{promql: zoneQuery, store: (*reader).storeZone,
			missing: "kube_node_labels" + ksm + " with the label topology.kubernetes.io/zone: nodes have no zones"},
		{promql: ownerQuery, missing: "kube_pod_owner" + ksm + ": each pod is a workload of its own",
			store: forPod(func(_ *reader, p *pod, labels map[string]string, _ float64) {
				p.ownerKind, p.ownerName = labels["owner_kind"], labels["owner_name"]
			})},
		{promql: createdQuery, missing: "kube_pod_created" + ksm + ": pods arrive at their first usage",
			store: forPod(func(r *reader, p *pod, _ map[string]string, unix float64) {
				since := unix - float64(r.start.Unix())
				if since > r.length.Seconds() { // a wrong clock
					return
				}
				created := time.Duration(since * float64(time.Second))
				if !slices.Contains(p.created, created) {
					p.created = append(p.created, created)
				}
			})},
		{promql: requestQuery, missing: "kube_pod_container_resource_requests" + ksm + ": pods have no requests",
			store: forPod(func(_ *reader, p *pod, labels map[string]string, value float64) {
				set(&p.requests, labels["resource"], value)
			})},
		{promql: limitQuery, missing: "kube_pod_container_resource_limits or kube_pod_container_info" + ksm + ": pods have no limits",
			store: forPod(func(_ *reader, p *pod, labels map[string]string, value float64) {
				set(&p.limits, labels["resource"], value)
			})},
		{promql: cpuQuery, inEachStep: true, store: (*reader).storeCPU},
		{promql: memoryQuery, inEachStep: true, missing: "container_memory_working_set_bytes of cAdvisor: pods use no memory",
			store: forPod(func(_ *reader, p *pod, _ map[string]string, bytes float64) {
				p.memory += bytes
				p.memorySamples++
			})},
	}
}

// forPod stores values of series with labels of a pod.
func forPod(store func(r *reader, p *pod, labels map[string]string, value float64),
) func(r *reader, labels map[string]string, at time.Duration, value float64) {
	return func(r *reader, labels map[string]string, _ time.Duration, value float64) {
		if p := r.pod(labels); p != nil {
			store(r, p, labels, value)
		}
	}
}

func (r *reader) readAll(ctx context.Context) error {
	for from := time.Duration(0); from < r.length; from += chunk {
		to := min(from+chunk, r.length)
		for _, q := range queries() {
			first := r.start.Add(to)
			if q.inEachStep {
				first = r.start.Add(from + input.TraceStep) // a sample is of the previous step
			}
			series, err := r.queryRange(ctx, q.promql, first, r.start.Add(to), func(labels map[string]string, at time.Time, value float64) {
				if value > maxValue { // the decoder accepts no others
					r.rejected++
					return
				}
				q.store(r, labels, at.Sub(r.start), value)
			})
			if err != nil {
				return err
			}
			r.read[q.promql] += series
		}
	}
	return nil
}

// queryRange evaluates the query in each step from first to last, and returns the number of series. visit must not keep the labels.
func (r *reader) queryRange(ctx context.Context, promql string, first, last time.Time,
	visit func(labels map[string]string, at time.Time, value float64),
) (series int, err error) {
	parameters := url.Values{
		"query": {promql}, "step": {strconv.Itoa(int(input.TraceStep.Seconds()))},
		"start": {strconv.FormatInt(first.Unix(), 10)}, "end": {strconv.FormatInt(last.Unix(), 10)},
	}
	elements := response.Matrix(response.ClearMap, func(s *response.Series[map[string]string]) {
		series++
		for _, p := range s.Values {
			// Some servers align times to the step. A far time would stretch a pod's trace without end.
			if !p.At.Before(first.Add(-input.TraceStep)) && !p.At.After(last.Add(input.TraceStep)) {
				visit(s.Metric, p.At, p.Value)
			}
		}
	})
	answer, err := r.client.Send(ctx, parameters, response.Bounds{Bytes: maxResponseBytes, Series: maxSeries}, elements)
	if partial := answer.Partial(); err == nil && partial != nil {
		err = fmt.Errorf("%s: %w", r.client.Endpoint(), partial)
	}
	if err != nil {
		return 0, fmt.Errorf("query %s: %w", promql, err)
	}
	for _, n := range answer.Rejected {
		r.rejected += n
	}
	return series, nil
}

// set sets an amount in cores or bytes.
func set(amounts *input.Amounts, resource string, value float64) {
	switch resource {
	case "cpu":
		amounts.CPUMillis = 1000 * value
	case "memory":
		amounts.MemoryBytes = value
	}
}

func (r *reader) storeCapacity(labels map[string]string, _ time.Duration, value float64) {
	name, resource := labels["node"], labels["resource"]
	if name == "" {
		return
	}
	n := r.nodes[name]
	if n == nil {
		n = &node{Node: input.Node{Name: name}, hugePages: map[string]float64{}}
		r.nodes[name] = n
	}
	if strings.HasPrefix(resource, "hugepages_") {
		n.hugePages[resource] = value
	}
	set(&n.Capacity, resource, value)
}

func (r *reader) storeZone(labels map[string]string, _ time.Duration, _ float64) {
	if n, ok := r.nodes[labels["node"]]; ok {
		n.Zone = labels["label_topology_kubernetes_io_zone"]
	}
}

func (r *reader) pod(labels map[string]string) *pod {
	key := [2]string{labels["namespace"], labels["pod"]}
	if key[0] == "" || key[1] == "" {
		return nil
	}
	if r.pods[key] == nil {
		r.pods[key] = &pod{namespace: key[0], name: key[1]}
	}
	return r.pods[key]
}

func (r *reader) storeCPU(labels map[string]string, at time.Duration, cores float64) {
	p := r.pod(labels)
	step := int(at/input.TraceStep) - 1
	if p == nil || step < 0 {
		return
	}
	if len(p.usage) == 0 {
		p.first = step
	}
	for p.first+len(p.usage) < step { // a gap in the series
		p.usage = append(p.usage, float32(math.NaN()))
	}
	p.usage = append(p.usage, float32(1000*cores))
}

func (r *reader) history() (*Result, error) {
	in := &input.Input{
		Name: fmt.Sprintf("cluster, %v until %s", r.length, r.start.Add(r.length).UTC().Format(time.DateTime)), Start: r.start,
		Length: r.length, Counted: r.length - r.length/8, // the rest fills the cluster
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		for _, bytes := range n.hugePages { // no pod can have them, as podusage.CapacityOf says
			n.Capacity.MemoryBytes -= bytes
		}
		if n.Capacity.CPUMillis > 0 && n.Capacity.MemoryBytes > 0 {
			in.Nodes = append(in.Nodes, n.Node)
		}
	}
	if len(in.Nodes) == 0 {
		return nil, errors.New("no nodes: kube_node_status_capacity of kube-state-metrics is missing")
	}
	if r.read[cpuQuery] == 0 {
		return nil, errors.New("no usage of pods: container_cpu_usage_seconds_total of cAdvisor is missing, " +
			"or its labels namespace, pod and container")
	}
	bound, idle := r.addPods(in)
	return &Result{Input: in, Missing: r.missing(bound, idle)}, nil
}

// addPods adds the pods with usage. It returns the numbers of skipped pods: of DaemonSets and static ones, and pods without usage.
func (r *reader) addPods(in *input.Input) (bound, idle int) {
	workloads := map[input.Workload]int{}
	for _, key := range slices.SortedFunc(maps.Keys(r.pods), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		p := r.pods[key]
		slices.Sort(p.created)
		n, ofNode := len(p.created), p.ownerKind == "DaemonSet" || p.ownerKind == "Node"
		switch {
		case len(p.usage) > 0 && ofNode:
			bound++
			continue
		case len(p.usage) == 0:
			if !ofNode && n > 0 && p.created[n-1] >= 0 {
				idle++
			}
			continue
		}
		w := input.Workload{
			Namespace: p.namespace, Name: p.workload(), Requests: p.requests, Limits: p.limits,
		}
		index, ok := workloads[w]
		if !ok {
			index = len(in.Workloads)
			workloads[w] = index
			in.Workloads = append(in.Workloads, w)
		}
		for _, one := range p.split() {
			in.Pods = append(in.Pods, r.input(one, index))
		}
	}
	slices.SortStableFunc(in.Pods, func(a, b input.Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return bound, idle
}

// workload is the name of the pod's workload as plugins know it, or the pod's own.
func (p *pod) workload() string {
	controller := true
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace}}
	if p.ownerName != "" {
		object.OwnerReferences = []metav1.OwnerReference{{Kind: p.ownerKind, Name: p.ownerName, Controller: &controller}}
	}
	if w, ok := learned.OwnerOf(object); ok {
		return w.Name
	}
	return p.name
}

// split returns the pods of the name, each with its usage. It cuts off unknown steps at the ends, and fills those between with the
// previous value.
func (p *pod) split() []*pod {
	var pods []*pod
	unknown := func(v float32) bool { return math.IsNaN(float64(v)) }
	add := func(from, to int) {
		for from < to && unknown(p.usage[from]) {
			from++
		}
		for from < to && unknown(p.usage[to-1]) {
			to--
		}
		if from == to {
			return
		}
		one := *p
		one.first, one.usage = p.first+from, p.usage[from:to]
		for i, v := range one.usage {
			if unknown(v) {
				one.usage[i] = one.usage[i-1]
			}
		}
		pods = append(pods, &one)
	}
	from := 0
	for _, created := range p.created {
		if step := int(created/input.TraceStep) - p.first; step > from && step < len(p.usage) {
			add(from, step)
			from = step
		}
	}
	add(from, len(p.usage))
	return pods
}

// input returns the pod for a replay. It arrives at its creation; after a wait of more than a step, at its first usage. So the
// replay has the cluster's load. Its end is exact to five minutes.
func (r *reader) input(p *pod, workload int) input.Pod {
	from := time.Duration(p.first) * input.TraceStep
	arrival := from
	for _, created := range p.created {
		if created >= from-input.TraceStep && created < from+input.TraceStep {
			arrival = max(created, 0)
		}
	}
	if ran := from + input.TraceStep - arrival; ran < input.TraceStep { // the value is a mean over the whole step
		p.usage[0] *= float32(input.TraceStep) / float32(max(ran, input.Tick))
	}
	end := time.Duration(p.first+len(p.usage)) * input.TraceStep
	if end >= r.length {
		end = 2 * r.length // it still runs
	}
	pod := input.Pod{
		Workload: workload, Arrival: arrival, Lifetime: max(end-arrival, input.Tick),
		Trace: p.usage, TraceFrom: p.first, CPUMillis: 1, Noise: -1,
	}
	if p.memorySamples > 0 {
		pod.MemoryBytes = p.memory / float64(p.memorySamples)
	}
	return pod
}

// missing names the missing data and the skipped pods.
func (r *reader) missing(bound, idle int) []string {
	var missing []string
	for _, q := range queries() {
		if q.missing != "" && r.read[q.promql] == 0 {
			missing = append(missing, q.missing)
		}
	}
	missing = append(missing, "taints of nodes, and the times when nodes came and went: every node takes all pods, all of the time")
	if bound > 0 {
		missing = append(missing, text.Count(bound, "pod")+" of DaemonSets or static, with their usage")
	}
	if r.rejected > 0 {
		missing = append(missing, text.Count(r.rejected, "value")+" that cannot have been measured: negative, infinite or too large")
	}
	if idle > 0 {
		missing = append(missing, text.Count(idle, "pod")+" without usage, running for less than two scrapes")
	}
	return missing
}
