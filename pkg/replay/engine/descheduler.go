package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// Descheduler holds the published rules of another project that moves pods by load. Only CPU is compared.
type Descheduler struct {
	Name string
	// Low and High are in percent of capacity. Pods move off nodes above High while nodes below Low have room up to High.
	Low, High float64
	// every is the time between two rounds. window is that of the utilization.
	every, window time.Duration
	// rounds is the number of consecutive rounds above High before pods move.
	rounds int
	// byUsage moves large pods of a QoS class first.
	byUsage bool
	// workloads bounds the moves of a workload under way, as maxMoving says.
	workloads bool
}

// Deschedulers returns the known ones with the thresholds of their documentation's examples; neither has defaults.
//
//   - LowNodeUtilization: README of kubernetes-sigs/descheduler, metricsUtilization with KubernetesMetrics; interval of its chart.
//   - LowNodeLoad: koordinator.sh, "Load Aware Descheduling": usage over 5 minutes, 5 rounds; interval of Alibaba's ACK.
func Deschedulers() []Descheduler {
	return []Descheduler{
		{Name: "LowNodeUtilization", Low: 20, High: 50, every: 5 * time.Minute, window: time.Minute, rounds: 1},
		{
			Name: "LowNodeLoad", Low: 45, High: 70, every: 2 * time.Minute, window: 5 * time.Minute, rounds: 5,
			byUsage: true, workloads: true,
		},
	}
}

// WithThresholds returns the descheduler with other thresholds, such as "40/80".
func (d Descheduler) WithThresholds(lowAndHigh string) (Descheduler, error) {
	if n, err := fmt.Sscanf(lowAndHigh+"\n", "%f/%f\n", &d.Low, &d.High); n < 2 || err != nil ||
		d.Low < 0 || d.High > 100 || d.Low > d.High {
		return d, fmt.Errorf("%s: thresholds %q; write two percentages, the lower one first, such as 40/80", d.Name, lowAndHigh)
	}
	d.Name += "=" + lowAndHigh
	return d, nil
}

// descheduling applies the rules of a Descheduler.
type descheduling struct {
	Descheduler
	engine *engine
	// above counts the consecutive rounds of a node above High.
	above []int
}

func newDescheduling(e *engine, d Descheduler) *descheduling {
	e.measured.keep(d.window)
	return &descheduling{d, e, make([]int, len(e.nodes))}
}

func (*descheduling) begin(*rebalance.Move, time.Time)                              {}
func (*descheduling) end(context.Context, types.UID, *corev1.Pod) rebalance.Outcome { return "" }

func (d *descheduling) plan(context.Context) (*rebalance.Plan, error) {
	e := d.engine
	if e.measured.ticks%input.Ticks(d.every) != 0 {
		return &rebalance.Plan{}, nil
	}
	var hot []int
	room, used := 0.0, make([]float64, len(e.nodes))
	for i := range e.nodes {
		capacity := e.nodes[i].capacity.CPUMillis
		used[i] = e.measured.over(i, load.CPU, d.window).Mean * capacity
		d.above[i]++
		if used[i] <= d.High/100*capacity {
			d.above[i] = 0
		}
		if d.above[i] >= d.rounds {
			hot = append(hot, i)
		}
		if used[i] < d.Low/100*capacity {
			room += d.High/100*capacity - used[i]
		}
	}
	slices.SortStableFunc(hot, func(a, b int) int {
		return cmp.Compare(used[b]/e.nodes[b].capacity.CPUMillis, used[a]/e.nodes[a].capacity.CPUMillis)
	})
	var moves []rebalance.Move
	moving := d.movingByWorkload()
	for _, node := range hot {
		excess := used[node] - d.High/100*e.nodes[node].capacity.CPUMillis
		for _, i := range d.candidates(node) {
			w := e.Pods[i].Workload
			if excess <= 0 || room <= 0 {
				break
			}
			if d.workloads && moving[w] >= d.maxMoving(w) {
				continue
			}
			usage, _ := e.usageOver(i, d.window)
			excess -= usage[load.CPU]
			room -= usage[load.CPU]
			moving[w]++
			moves = append(moves, rebalance.Move{From: e.Nodes[node].Name, UID: e.pods[i].object.UID})
		}
	}
	return &rebalance.Plan{Moves: moves}, nil
}

// candidates returns the pods of a node, the lowest QoS class first.
func (d *descheduling) candidates(node int) []int {
	order := map[corev1.PodQOSClass]int{corev1.PodQOSBestEffort: 0, corev1.PodQOSBurstable: 1, corev1.PodQOSGuaranteed: 2}
	pods := slices.Clone(d.engine.nodes[node].running)
	usage := map[int]float64{}
	for _, i := range pods {
		if of, _ := d.engine.usageOver(i, d.window); d.byUsage {
			usage[i] = of[load.CPU]
		}
	}
	slices.SortStableFunc(pods, func(a, b int) int {
		class := func(i int) int { return order[qos.GetPodQOS(d.engine.pods[i].object)] }
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(usage[b], usage[a]))
	})
	return pods
}

// movingByWorkload counts the moves under way.
func (d *descheduling) movingByWorkload() map[int]int {
	moving := map[int]int{}
	for i := range d.engine.mover.underWay {
		moving[d.engine.Pods[i].Workload]++
	}
	return moving
}

// maxMoving bounds the moves under way of a workload. It is 1 of up to 3 replicas, 2 of up to 10, else 10 %.
func (d *descheduling) maxMoving(workload int) int {
	replicas := 0
	for i := range d.engine.nodes {
		for _, pod := range d.engine.nodes[i].running {
			if d.engine.Pods[pod].Workload == workload {
				replicas++
			}
		}
	}
	switch {
	case replicas <= 3:
		return 1
	case replicas <= 10:
		return 2
	}
	return (replicas + 9) / 10
}
