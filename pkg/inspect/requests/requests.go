package requests

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// Bounds of Request.History.
const (
	MinHistory = time.Hour
	MaxHistory = 7 * 24 * time.Hour
)

// Request selects workloads and their history.
type Request struct {
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
	// Namespace is that of the workloads; empty is all.
	Namespace string
	// Selector selects workloads by labels; empty is all.
	Selector string
	// History is how far back usages are read.
	History time.Duration
	Rule    Rule
	// Progress is called with the share that is done, in [0, 1].
	Progress func(done float64)
	Clock    clock.PassiveClock
}

// Validate returns an error that names the flag.
func (r *Request) Validate() error {
	if r.History < MinHistory || r.History > MaxHistory {
		return cluster.OptionErrorf("--history: %v; write from %v to %v", r.History, MinHistory, MaxHistory)
	}
	if r.Rule.MinHistory.Duration > r.History {
		return cluster.OptionErrorf("--history: %v is less than --min-history, %v; increase --history, or write --min-history %[1]v",
			r.History, r.Rule.MinHistory.Duration)
	}
	if _, err := labels.Parse(r.Selector); err != nil {
		return cluster.OptionErrorf("--selector: %w", err)
	}
	if err := r.Rule.Validate(); err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	return nil
}

// Report is what workloads request and use, and what to request.
type Report struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Rule  Rule      `json:"rule"`
	// Workloads are sorted by namespace and name.
	Workloads []*Workload `json:"workloads"`
	// CPU and Memory are sums over the running pods of workloads with recommendations.
	CPU    Sum `json:"cpu"`
	Memory Sum `json:"memory"`
	// Skipped are workloads whose name another kind of their namespace has: usages tell names alone.
	Skipped []string `json:"skipped,omitempty"`
}

// Workload is a controller of pods.
type Workload struct {
	Namespace  string `json:"namespace"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Pods is the number of pods on nodes.
	Pods       int          `json:"pods"`
	Containers []*Container `json:"containers"`
}

// Container is a container of each pod of a workload.
type Container struct {
	Name   string   `json:"name"`
	CPU    Resource `json:"cpu"`
	Memory Resource `json:"memory"`
}

// Resource is a resource of a container.
type Resource struct {
	// Request and Limit are those of the workload's template; nil where there is none.
	Request *resource.Quantity `json:"request,omitempty"`
	Limit   *resource.Quantity `json:"limit,omitempty"`
	// SeenSeconds is the time that any pod was measured for. Below Rule.MinHistory nothing is recommended.
	SeenSeconds float64 `json:"seenSeconds"`
	// Usage is nil where nothing was measured.
	Usage *Usage `json:"usage,omitempty"`
	// RecommendedRequest and RecommendedLimit are nil where nothing is recommended.
	RecommendedRequest *resource.Quantity `json:"recommendedRequest,omitempty"`
	RecommendedLimit   *resource.Quantity `json:"recommendedLimit,omitempty"`
	// AtLimit reports whether the highest usage is 95 % of the limit or more. The container may need more than was measured.
	AtLimit bool `json:"atLimit,omitempty"`

	// byPod are the usages of each pod, by its name. steps are the five minutes with a usage, a bit each.
	byPod map[string]usages
	steps big.Int
}

// Sum compares requests of all running pods.
type Sum struct {
	Requested   resource.Quantity `json:"requested"`
	Recommended resource.Quantity `json:"recommended"`
	Allocatable resource.Quantity `json:"allocatable"`
}

// Freed returns the amount that the recommendation frees, in milliCPU or bytes; it is negative if it takes more.
func (s *Sum) Freed(r load.Resource) float64 {
	return amount(r, &s.Requested) - amount(r, &s.Recommended)
}

// FreedPercent is Freed, in percent of the allocatable.
func (s *Sum) FreedPercent(r load.Resource) float64 {
	if allocatable := amount(r, &s.Allocatable); allocatable > 0 {
		return 100 * s.Freed(r) / allocatable
	}
	return 0
}

func (c *Container) resources() [load.ResourceCount]*Resource {
	return [load.ResourceCount]*Resource{load.CPU: &c.CPU, load.Memory: &c.Memory}
}

// Run reads the workloads and what they used, and recommends.
func Run(ctx context.Context, c *cluster.Connection, r Request) (*Report, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	history := prometheus.ContainerHistory{End: r.Clock.Now()}
	history.Start = history.End.Add(-r.History)
	if r.Namespace != "" {
		history.Namespaces = []string{r.Namespace}
	}
	var configuration *schedulerconfig.KubeSchedulerConfiguration
	if r.Source.Address == "" || r.Configuration != (cluster.ConfigurationOptions{}) {
		found, err := c.ValidConfiguration(ctx, r.Configuration)
		if err != nil {
			return nil, err
		}
		configuration = found.Decoded
	}
	var err error
	if history.Address, history.HTTP, err = c.Prometheus(ctx, configuration, r.Source); err != nil {
		return nil, err
	}
	history.HTTP.Timeout = prometheus.PodTimeout
	found, err := find(ctx, c, r.Namespace, r.Selector)
	if err != nil {
		return nil, err
	}
	found.start = history.Start
	if err := history.Read(ctx, r.Progress, found.observe); err != nil {
		return nil, err
	}
	report := &Report{
		Start: history.Start.UTC(), End: history.End.UTC(), Rule: r.Rule, Workloads: found.workloads, Skipped: found.skipped,
	}
	report.recommend(found)
	return report, nil
}

// observe adds a usage to its container.
func (f *found) observe(u *prometheus.ContainerUsage) {
	c := f.container(u.Namespace, u.Pod, u.Container)
	if c == nil || !(u.Value >= 0 && u.Value <= math.MaxFloat32) {
		return
	}
	of := c.resources()[u.Resource]
	if of.byPod == nil {
		of.byPod = map[string]usages{}
	}
	of.byPod[u.Pod] = append(of.byPod[u.Pod], float32(u.Value))
	of.steps.SetBit(&of.steps, max(int(u.At.Sub(f.start)/promql.PodWindow), 0), 1)
}

// recommend fills in usages, recommendations and sums.
func (r *Report) recommend(f *found) {
	sums := [load.ResourceCount]*Sum{load.CPU: &r.CPU, load.Memory: &r.Memory}
	var requested, recommended [load.ResourceCount]float64
	for _, w := range r.Workloads {
		for _, c := range w.Containers {
			r.recommendContainer(c)
			for of, resource := range c.resources() {
				if resource.RecommendedRequest == nil {
					continue
				}
				recommended[of] += float64(w.Pods) * amount(load.Resource(of), resource.RecommendedRequest)
				requested[of] += float64(w.Pods) * amount(load.Resource(of), resource.requested())
			}
		}
	}
	for of, sum := range sums {
		of := load.Resource(of)
		*sum = Sum{quantity(of, requested[of]), quantity(of, recommended[of]), quantity(of, f.allocatable[of])}
	}
}

func (r *Report) recommendContainer(c *Container) {
	for of, resource := range c.resources() {
		resource.describe(load.Resource(of))
	}
	if r.Rule.seenEnough(&c.CPU) {
		c.CPU.RecommendedRequest = new(r.Rule.cpu(c.CPU.byPod))
		// The API server refuses a request above its limit.
		if limit := c.CPU.Limit; limit != nil && limit.Cmp(*c.CPU.RecommendedRequest) < 0 {
			c.CPU.RecommendedLimit = c.CPU.RecommendedRequest
		}
	}
	if r.Rule.seenEnough(&c.Memory) {
		c.Memory.RecommendedRequest = new(r.Rule.memory(c.Memory.byPod))
		c.Memory.RecommendedLimit = c.Memory.RecommendedRequest
	}
}

// describe fills in the usage.
func (of *Resource) describe(r load.Resource) {
	if len(of.byPod) == 0 {
		return
	}
	for _, word := range of.steps.Bits() {
		of.SeenSeconds += float64(bits.OnesCount(uint(word))) * promql.PodWindow.Seconds()
	}
	all := slices.Concat(slices.Collect(maps.Values(of.byPod))...)
	of.Usage = new(all.usage(r))
	if of.Limit != nil && !of.Limit.IsZero() {
		const near = 0.95
		of.AtLimit = all.highest() >= near*amount(r, of.Limit)
	}
}

// requested is what the API server takes for the request: the limit, if there is no request.
func (of *Resource) requested() *resource.Quantity {
	if of.Request == nil {
		return of.Limit
	}
	return of.Request
}

// amount is in milliCPU or bytes; of nil it is 0.
func amount(r load.Resource, q *resource.Quantity) float64 {
	switch {
	case q == nil:
		return 0
	case r == load.CPU:
		return 1000 * q.AsApproximateFloat64()
	}
	return q.AsApproximateFloat64()
}

// shortHistory returns the containers and resources for which nothing is recommended.
func (r *Report) shortHistory() (names []string) {
	for _, w := range r.Workloads {
		for _, c := range w.Containers {
			for of, resource := range c.resources() {
				if resource.RecommendedRequest == nil {
					names = append(names, fmt.Sprintf("%s of %s/%s (%s)", load.Resource(of), w.Namespace, w.Name, c.Name))
				}
			}
		}
	}
	return names
}
