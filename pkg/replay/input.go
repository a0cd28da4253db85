package replay

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Tick is the time between two measurements, and between two rounds of decisions.
const Tick = 30 * time.Second

// Input is what is replayed: nodes, and pods with what they use. It must not be changed during a replay.
type Input struct {
	// Name says which pods, such as "2011-03-03, seed 1".
	Name string
	Seed uint64
	// Start is the moment at which it begins, Length how long it lasts, and Counted the span at its end that figures are of.
	Start           time.Time
	Length, Counted time.Duration
	Nodes           []Node
	Workloads       []Workload
	// Pods are in the order of their arrival.
	Pods []Pod
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Zone is the value of topology.kubernetes.io/zone.
	Zone     string
	Capacity podusage.Amounts
}

// Workload is what pods of one controlling owner have in common.
type Workload struct {
	Namespace, Name string
	// Image is the image of the pods' container.
	Image string
	// Requests and Limits are those of a pod; 0 where there is none.
	Requests, Limits podusage.Amounts
}

// Pod is a pod that arrives, and what it uses once it runs.
type Pod struct {
	// Workload is the index of the pod's workload.
	Workload int
	// Arrival is the time from Input.Start until the pod is created.
	Arrival time.Duration
	// Lifetime is how long the pod runs.
	Lifetime time.Duration
	// Trace is the CPU usage in each TraceStep from Input.Start, in units of CPUMillis; its first value is that of the step
	// TraceFrom. Beyond its ends the first and the last value hold. It may be shared between pods.
	Trace     []float32
	TraceFrom int
	CPUMillis float32
	// Noise is the place in a series of random numbers at which the pod's noise begins, for each 30 s, with a standard deviation
	// of noiseShare; negative for a pod without.
	Noise int
	// MemoryBytes is what the pod uses of memory.
	MemoryBytes float64
}

const (
	// noiseShare is the standard deviation of the usage in each Tick, as a fraction of the usage.
	noiseShare = 0.2
	noiseBits  = 16
)

// noise is a series of factors with the mean 1 and the standard deviation noiseShare, that all pods share.
type noise []float32

func newNoise() noise {
	r := rand.New(rand.NewPCG(1, 1))
	n := make(noise, 1<<noiseBits)
	for i := range n {
		n[i] = float32(max(1+noiseShare*r.NormFloat64(), 0))
	}
	return n
}

// value returns the value of the trace in a step, counted from Input.Start.
func (p *Pod) value(step int) float32 { return p.Trace[min(max(step-p.TraceFrom, 0), len(p.Trace)-1)] }

// demand is a pod's CPU usage where nothing but its limit bounds it.
type demand struct {
	trace       []float32
	from        int
	noise       noise
	noiseAt     int
	millis      float32
	limitMillis float32
}

const ticksPerSample = int(TraceStep / Tick)

func (in *Input) demandOf(p *Pod, n noise) demand {
	d := demand{trace: p.Trace, from: p.TraceFrom, millis: p.CPUMillis, noise: n, noiseAt: p.Noise, limitMillis: float32(in.Workloads[p.Workload].Limits[load.CPU])}
	if p.Noise < 0 {
		d.noise = nil
	}
	return d
}

// at returns the usage in milliCPU during the given tick, counted from Input.Start.
func (d *demand) at(tick int) float32 {
	sample := min(max(tick/ticksPerSample-d.from, 0), len(d.trace)-1)
	usage := d.trace[sample] * d.millis
	if d.noise != nil {
		usage *= d.noise[(d.noiseAt+tick)&(1<<noiseBits-1)]
	}
	if d.limitMillis > 0 && usage > d.limitMillis {
		return d.limitMillis
	}
	return usage
}

// ticks returns the number of ticks that begin within the time.
func ticks(d time.Duration) int { return int((d + Tick - 1) / Tick) }
