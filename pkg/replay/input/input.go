// Package input has the input of a replay: nodes, and pods with their arrivals and usages. It reads and writes it as a file.
package input

import (
	"math/rand/v2"
	"time"
)

const (
	// Tick is the time between two measurements, and between two rounds of decisions.
	Tick = 30 * time.Second
	// TraceStep is the time between two values of a trace.
	TraceStep = 5 * time.Minute
	// Day is the length of a file of traces.
	Day = 24 * time.Hour
	// MaxDays bounds Input.Length.
	MaxDays = 31
)

// Input is a cluster and its pods. It must not change during a replay.
type Input struct {
	// Name identifies the pods, such as "2011-03-03, seed 1".
	Name string
	// Seed is for the random choices of policies.
	Seed  uint64
	Start time.Time
	// Length is the length of the replay. Figures cover the time Counted at its end.
	Length, Counted time.Duration
	Nodes           []Node
	Workloads       []Workload
	// Pods are sorted by Arrival.
	Pods []Pod
}

// Amounts are of the resources of a node or a pod; 0 is unset.
type Amounts struct {
	CPUMillis   float64 `json:"cpuMillis,omitempty"`
	MemoryBytes float64 `json:"memoryBytes,omitempty"`
}

// Node is a node of the cluster.
type Node struct {
	Name string `json:"name"`
	// Zone is the value of topology.kubernetes.io/zone.
	Zone     string  `json:"zone,omitempty"`
	Capacity Amounts `json:"capacity"`
}

// Workload has the common properties of the pods of a controlling owner.
type Workload struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Requests  Amounts `json:"requests,omitzero"`
	Limits    Amounts `json:"limits,omitzero"`
}

// Pod is a pod with its usage.
type Pod struct {
	// Workload is an index of Input.Workloads.
	Workload int
	// Arrival is the time of the pod's creation, counted from Input.Start.
	Arrival time.Duration
	// Lifetime is the pod's running time.
	Lifetime time.Duration
	// Trace is the CPU usage in each TraceStep, in units of CPUMillis. Its first value is of step TraceFrom, counted from
	// Input.Start; beyond its ends the first and the last value hold. Pods may share it.
	Trace     []float32
	TraceFrom int
	CPUMillis float32
	// Noise is the index of the pod's first noise factor, below NoiseLength; negative without noise.
	Noise       int
	MemoryBytes float64
}

const (
	// NoiseLength is the number of noise factors, a power of 2. They repeat.
	NoiseLength = 1 << 16
	// noiseShare is the standard deviation of noise factors.
	noiseShare = 0.2
)

// Noise is a series of factors of mean 1, one for each Tick. All pods share it.
type Noise []float32

// NewNoise returns the factors, which are always the same.
func NewNoise() Noise {
	r := rand.New(rand.NewPCG(1, 1))
	n := make(Noise, NoiseLength)
	for i := range n {
		n[i] = float32(max(1+noiseShare*r.NormFloat64(), 0))
	}
	return n
}

// Value returns the trace's value in a step, counted from Input.Start.
func (p *Pod) Value(step int) float32 { return p.Trace[min(max(step-p.TraceFrom, 0), len(p.Trace)-1)] }

// Autocorrelation returns the correlation of the pods' CPU usages with those a TraceStep later; false if no pod of at least two
// hours has a usage that varies. Deviations are from each pod's own mean, which biases longer lags low: after an hour, usages that
// keep 0.92 from step to step look like noise.
func Autocorrelation(inputs []*Input) (float64, bool) {
	const minSteps = 24
	var covariance, variance float64
	for _, in := range inputs {
		for i := range in.Pods {
			p := &in.Pods[i]
			from := max(int(p.Arrival/TraceStep), p.TraceFrom)
			to := min(int((p.Arrival+p.Lifetime)/TraceStep), p.TraceFrom+len(p.Trace))
			n := to - from
			if n < minSteps {
				continue
			}
			usages, sum := p.Trace[from-p.TraceFrom:to-p.TraceFrom], 0.0
			for _, u := range usages {
				sum += float64(u)
			}
			mean, unit := sum/float64(n), float64(p.CPUMillis)
			for at, u := range usages {
				deviation := (float64(u) - mean) * unit
				variance += deviation * deviation
				if at > 0 {
					covariance += deviation * (float64(usages[at-1]) - mean) * unit * float64(n) / float64(n-1)
				}
			}
		}
	}
	return covariance / variance, variance > 0
}

// Demand is a pod's CPU usage on a node with room for it.
type Demand struct {
	pod         *Pod
	noise       Noise
	limitMillis float32
	// Before the tick restartedUntil, the usage is at least atStart, without noise.
	restartedUntil int
	atStart        float32
}

const ticksPerSample = int(TraceStep / Tick)

// DemandOf returns the demand of a pod of the input.
func (in *Input) DemandOf(p *Pod, n Noise) Demand {
	d := Demand{pod: p, noise: n, limitMillis: float32(in.Workloads[p.Workload].Limits.CPUMillis)}
	if p.Noise < 0 {
		d.noise = nil
	}
	return d
}

// Restarted returns the demand of the pod if it starts again at a tick. For a TraceStep, it uses at least what it used when it
// arrived.
func (d Demand) Restarted(tick int) Demand {
	d.restartedUntil, d.atStart = tick+ticksPerSample, d.pod.Value(int(d.pod.Arrival/TraceStep))*d.pod.CPUMillis
	return d
}

// At returns the usage in milliCPU during the tick, counted from Input.Start.
func (d *Demand) At(tick int) float32 {
	usage := d.pod.Value(tick/ticksPerSample) * d.pod.CPUMillis
	if tick < d.restartedUntil {
		usage = max(usage, d.atStart)
	}
	if d.noise != nil {
		usage *= d.noise[(d.pod.Noise+tick)&(NoiseLength-1)]
	}
	if d.limitMillis > 0 && usage > d.limitMillis {
		return d.limitMillis
	}
	return usage
}

// Ticks returns the number of ticks that begin within the time.
func Ticks(d time.Duration) int { return int((d + Tick - 1) / Tick) }
