package generate

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// Scenario determines the number and the kinds of pods.
type Scenario struct {
	Name string
	// Demand is the mean CPU demand over the counted hours, as a fraction of capacity.
	Demand float64
	// Recurring is the share of bursts from a catalog of recurring workloads.
	Recurring float64
}

// Scenarios returns the scenarios, base first.
func Scenarios() []Scenario {
	return []Scenario{
		{"base", baseDemand, 0.65},
		{"high", 0.54, 0.65},
		{"low", 0.24, 0.65},
		{"new", baseDemand, 0},
	}
}

// ScenarioNames returns the names of the scenarios.
func ScenarioNames() (names []string) {
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

const (
	baseDemand = 0.44
	// baseNodes is the cluster size of burstsPerDay and catalog, which grow with the nodes.
	baseNodes = 100
	// burstsPerDay is for the base scenario, without the pods that fill the cluster.
	burstsPerDay = 3120
	catalog      = 400
	namespaces   = 40
	maxReplicas  = 50
	// copies is the share of new workloads with the namespace and usage of an earlier one.
	copies = 0.25

	medianLifetime = 100 * time.Minute
	lifetimeSigma  = 1.1
	replicaSigma   = 0.15
	fillTime       = time.Hour
	warmUp         = 3 * time.Hour

	// similar is the maximum distance of similar traces in the order of means, as a share of a block.
	similar = 0.02

	// maxExcessRequest bounds requests of more than twice the mean, maxRequest all requests, in milliCPU.
	maxExcessRequest = 750
	maxRequest       = 4000
)

// coresOfPod are the cores that traces are scaled to, with the share of workloads.
var coresOfPod = []struct {
	cores float64
	share float64
}{{1, 0.50}, {2, 0.30}, {4, 0.20}}

// cluster returns nodes in three zones. 70 % have 8 cores and 32 GiB, and 30 % have 16 cores and 64 GiB.
func cluster(nodes int) []input.Node {
	all := make([]input.Node, nodes)
	for i := range all {
		size := 1.0
		if i%10 >= 7 {
			size = 2
		}
		all[i] = input.Node{
			Name:     fmt.Sprintf("node-%0*d", len(strconv.Itoa(nodes-1)), i),
			Zone:     "zone-" + string(rune('a'+i%3)),
			Capacity: input.Amounts{CPUMillis: 8000 * size, MemoryBytes: size * (32 << 30)},
		}
	}
	return all
}

// Input returns nodes, and pods whose usage follows the traces. Of several days in a row, the first is not counted. Equal arguments
// yield equal pods.
func Input(t *Traces, s Scenario, nodes int, seed uint64) (*input.Input, error) {
	machines := t.sorted()
	if len(machines) == 0 {
		return nil, fmt.Errorf("traces %s: all values are zero", t.Name)
	}
	in := &input.Input{
		Name: fmt.Sprintf("%s, seed %d", t.Name, seed), Seed: seed,
		Start:  time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		Length: input.TraceStep * time.Duration(len(machines[0])),
		Nodes:  cluster(nodes),
	}
	if in.Counted = in.Length - input.Day; in.Counted == 0 {
		in.Counted = in.Length - warmUp
	}
	ofDay := fnv.New64a()
	_, _ = ofDay.Write([]byte(t.Name)) // it never fails
	g := &generator{
		Input: in, machines: machines, block: len(machines) / max(t.Blocks, 1), scenario: s,
		rand: rand.New(rand.NewPCG(seed, ofDay.Sum64())), size: float64(nodes) / baseNodes,
	}
	g.generate()
	return in, nil
}

// generator generates the workloads and pods of an Input.
type generator struct {
	*input.Input
	scenario Scenario
	rand     *rand.Rand
	// machines are the traces, in blocks of this size, each sorted by mean.
	machines [][]float32
	block    int
	// size is the number of nodes over baseNodes.
	size float64
	// kinds are by workload.
	kinds []kind
	// catalog is the number of recurring workloads, which come first.
	catalog int
}

// kind is the usage of a workload's pods.
type kind struct {
	namespace string
	// machine is the index of the trace.
	machine int
	// alike makes all replicas follow one trace; otherwise each follows a similar one.
	alike bool
	// cores scales the trace.
	cores       float64
	memoryBytes float64
}

func (g *generator) generate() {
	if g.scenario.Recurring > 0 {
		g.catalog = int(math.Round(catalog * g.size))
		for range g.catalog {
			g.addWorkload()
		}
	}
	perDay := burstsPerDay * g.size * g.scenario.Demand / baseDemand
	// The cluster fills with as many pods as in a steady state, with residual lifetimes.
	meanLifetime := time.Duration(float64(medianLifetime) * math.Exp(lifetimeSigma*lifetimeSigma/2))
	g.arrivals(perDay*meanLifetime.Hours()/24, fillTime, g.residualLifetime)
	g.arrivals(perDay*float64(g.Length/input.Day), g.Length, g.lifetime)
	slices.SortStableFunc(g.Pods, func(a, b input.Pod) int { return int(a.Arrival - b.Arrival) })
	g.scale()
	for i := range g.Workloads {
		g.request(i)
	}
}

// arrivals adds Poisson bursts from the start until over. bursts is their expected number.
func (g *generator) arrivals(bursts float64, over time.Duration, lifetime func() time.Duration) {
	for at := 0.0; ; {
		at += g.rand.ExpFloat64() / bursts
		if at >= 1 {
			return
		}
		g.burst(time.Duration(at*float64(over)), lifetime)
	}
}

// burst adds replicas of one workload.
func (g *generator) burst(arrival time.Duration, lifetime func() time.Duration) {
	w := 0
	if g.rand.Float64() < g.scenario.Recurring {
		w = g.rand.IntN(g.catalog)
	} else {
		w = g.addWorkload()
	}
	k := &g.kinds[w]
	for range min(max(int(math.Exp(0.9+1.05*g.rand.NormFloat64())), 1), maxReplicas) {
		machine := k.machine
		if !k.alike {
			machine = g.similar(machine)
		}
		scale := math.Exp(replicaSigma * g.rand.NormFloat64())
		g.Pods = append(g.Pods, input.Pod{
			Workload: w, Arrival: arrival, Lifetime: lifetime(),
			Trace: g.machines[machine], CPUMillis: float32(1000 * k.cores * scale),
			Noise: g.rand.IntN(input.NoiseLength), MemoryBytes: k.memoryBytes * scale,
		})
	}
}

func (g *generator) addWorkload() int {
	w := len(g.kinds)
	k := kind{
		machine:     g.rand.IntN(len(g.machines)),
		alike:       g.rand.Float64() < 0.5,
		memoryBytes: math.Exp(0.8*g.rand.NormFloat64()) * (256 << 20),
		namespace:   fmt.Sprintf("team-%02d", g.rand.IntN(namespaces)),
	}
	share := g.rand.Float64()
	for _, c := range coresOfPod {
		if k.cores = c.cores; share < c.share {
			break
		}
		share -= c.share
	}
	if w >= g.catalog && w > 0 && g.rand.Float64() < copies {
		k = g.kinds[g.rand.IntN(w)]
		k.machine = g.similar(k.machine)
	}
	g.kinds = append(g.kinds, k)
	g.Workloads = append(g.Workloads, input.Workload{Namespace: k.namespace, Name: fmt.Sprintf("app-%d", w)})
	return w
}

// similar returns a machine of the same block: one of another block would show a workload's pods the values of other days.
func (g *generator) similar(machine int) int {
	reach, first := max(int(similar*float64(g.block)), 1), machine/g.block*g.block
	return min(max(machine+g.rand.IntN(2*reach+1)-reach, first), first+g.block-1)
}

func (g *generator) lifetime() time.Duration {
	lifetime := float64(medianLifetime) * math.Exp(lifetimeSigma*g.rand.NormFloat64())
	return max(time.Duration(min(lifetime, float64(input.Day))), input.Tick)
}

// residualLifetime is the remaining lifetime of a running pod at a random time. Its whole lifetime is weighted by length.
func (g *generator) residualLifetime() time.Duration {
	whole := float64(medianLifetime) * math.Exp(lifetimeSigma*lifetimeSigma+lifetimeSigma*g.rand.NormFloat64())
	return max(time.Duration(min(whole, float64(input.Day))*g.rand.Float64()), input.Tick)
}

// scale scales usages to the scenario's demand in the counted hours.
func (g *generator) scale() {
	capacity, sum := 0.0, 0.0
	for i := range g.Nodes {
		capacity += g.Nodes[i].Capacity.CPUMillis
	}
	start := g.Length - g.Counted
	for i := range g.Pods {
		p := &g.Pods[i]
		from, to := max(p.Arrival, start), min(p.Arrival+p.Lifetime, g.Length)
		for at := from; at < to; at += input.TraceStep {
			sum += float64(p.Value(int(at/input.TraceStep))*p.CPUMillis) * min(to-at, input.TraceStep).Hours()
		}
	}
	if sum == 0 {
		return
	}
	factor := g.scenario.Demand * capacity * g.Counted.Hours() / sum
	for i := range g.Pods {
		g.Pods[i].CPUMillis *= float32(factor)
	}
	for i := range g.kinds {
		g.kinds[i].cores *= factor
	}
}

// request sets the workload's requests and limits. 85 % request CPU, and 30 % also have a limit.
func (g *generator) request(w int) {
	k, workload := &g.kinds[w], &g.Workloads[w]
	usage := 1000 * k.cores * mean(g.machines[k.machine])
	workload.Requests.MemoryBytes = math.Ceil(k.memoryBytes*1.3/(1<<20)) * (1 << 20)
	request := 0.0
	switch share := g.rand.Float64(); {
	case share < 0.63:
		request = max(2*usage, min(usage*2*math.Pow(5, g.rand.Float64()), maxExcessRequest))
	case share < 0.85:
		request = usage * (0.3 + 0.6*g.rand.Float64())
	default:
		return
	}
	request = math.Ceil(min(max(request, 10), maxRequest))
	workload.Requests.CPUMillis = request
	if g.rand.Float64() < 0.30/0.85 {
		workload.Limits.CPUMillis = math.Ceil(max(request*(1.5+2.5*g.rand.Float64()), 2*usage))
	}
}

// The parameters were fitted to CPU traces of PlanetLab on 2011-03-03, -06 and -09 (K. Park and V. Pai, "CoMon: a mostly-scalable
// monitoring system for PlanetLab", 2006). A machine's utilizations are nearly lognormal and nearly without memory.
const (
	syntheticMachines = 1000
	// logMean and logMeanSigma are mean and standard deviation of the logarithm of a machine's mean, in percent. Measured: 1.85 to
	// 1.93, and 1.01 to 1.09.
	logMean, logMeanSigma = 1.95, 1.12
	maxMean               = 72.0
	// logVariation and logVariationSigma are those of the standard deviation over the mean; measured: -0.33 to -0.13, and 0.66 to
	// 0.87. Busy machines vary less: the correlation with the logarithm of the mean is -0.68 to -0.65.
	logVariation, logVariationSigma = -0.22, 0.78
	variationByMean                 = -0.72
	// slowShare is the share of the variance that lasts for hours. Autocorrelations are 0.08 to 0.12 after 5 minutes, and 0.06 to 0.10
	// after an hour. After four hours they are 0.02 to 0.03. slowMemory is the time, in steps, in which it falls by a factor of e.
	slowShare, slowMemory = 0.18, 80.0
	// commonShare is the share of the variance that all machines share: the correlation of two is 0.006 to 0.027.
	commonShare = 0.018
)

// Synthetic returns a day of generated traces like those of PlanetLab. Equal seeds yield equal traces.
func Synthetic(seed uint64) *Traces {
	r := rand.New(rand.NewPCG(seed, 3))
	t := &Traces{Name: fmt.Sprintf("generated day %d", seed)}
	common := slowly(r)
	for range syntheticMachines {
		busy := r.NormFloat64()
		mean := min(math.Exp(logMean+logMeanSigma*busy), maxMean)
		other := math.Sqrt(1 - variationByMean*variationByMean)
		variation := math.Exp(logVariation + logVariationSigma*(variationByMean*busy+other*r.NormFloat64()))
		sigma := math.Sqrt(math.Log1p(variation * variation))
		own, row := slowly(r), make([]float32, samplesPerDay)
		for i := range row {
			z := math.Sqrt(commonShare)*common[i] + math.Sqrt(slowShare)*own[i] + math.Sqrt(1-slowShare-commonShare)*r.NormFloat64()
			percent := min(math.Round(mean*math.Exp(sigma*z-sigma*sigma/2)), 100)
			row[i] = float32(percent / 100)
		}
		t.Machines = append(t.Machines, row)
	}
	return t
}

// slowly returns a day of autocorrelated normal values.
func slowly(r *rand.Rand) []float64 {
	keep := math.Exp(-1 / slowMemory)
	values := make([]float64, samplesPerDay)
	value := r.NormFloat64()
	for i := range values {
		values[i] = value
		value = keep*value + math.Sqrt(1-keep*keep)*r.NormFloat64()
	}
	return values
}

// Traces are the CPU utilizations of machines over a day, or several days in a row.
type Traces struct {
	// Name is that of the day, or of the first and the last.
	Name string
	// Machines holds a row per machine: its utilization, from 0 to 1, in each TraceStep.
	Machines [][]float32
	// Blocks is the number of blocks of equally many rows, each of which begins on another day; 0 is one.
	Blocks int
}

const (
	// samplesPerDay is the length of a row.
	samplesPerDay = int(input.Day / input.TraceStep)
	// minMean keeps the logarithms of the means of idle machines apart from minus infinity.
	minMean = 0.001
	// maxTraceBytes bounds the uncompressed size of a file.
	maxTraceBytes = 64 << 20
)

// ReadTraces reads the files *.csv and *.csv.gz of a folder, by name. There is a file per day, and a row per machine. A row has a
// CPU utilization in percent for each five minutes.
func ReadTraces(folder string) ([]*Traces, error) {
	var files []string
	for _, pattern := range []string{"*.csv", "*.csv.gz"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no file *.csv or *.csv.gz: want a file per day, a row per machine, %d CPU utilizations in percent",
			folder, samplesPerDay)
	}
	slices.Sort(files)
	var days []*Traces
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if len(days) > 0 && days[len(days)-1].Name == name {
			return nil, fmt.Errorf("%s: a second file of %s; leave one", file, name)
		}
		parse := func(content io.Reader) (*Traces, error) { return parseTraces(name, content) }
		t, err := input.ReadFile(file, maxTraceBytes, "leave out machines", parse)
		if err != nil {
			return nil, err
		}
		days = append(days, t)
	}
	return days, nil
}

// InARow joins consecutive days, of the machines that ran on all of them. Files name no machines, but have them in the same order.
// Where a day has more rows than another, the rows that it has alone are those without which the means of the others differ least.
// In a further block for each other day, all machines begin on that day, and end with the days before. Without these blocks, pods
// of a few machines would all be busy at once.
func InARow(days []*Traces) *Traces {
	first, last := days[0], days[len(days)-1]
	joined := &Traces{Name: first.Name + " to " + last.Name, Machines: slices.Clone(first.Machines), Blocks: len(days)}
	for _, day := range days[1:] {
		next := day.Machines
		if len(next) < len(joined.Machines) {
			joined.Machines = common(joined.Machines, next)
		} else {
			next = common(next, joined.Machines)
		}
		for i, row := range next {
			joined.Machines[i] = slices.Concat(joined.Machines[i], row)
		}
	}
	var twice [][]float32
	for _, row := range joined.Machines {
		twice = append(twice, slices.Concat(row, row))
	}
	for day := 1; day < len(days); day++ {
		for _, row := range twice { // the blocks share memory
			joined.Machines = append(joined.Machines, row[day*samplesPerDay:(day+len(days))*samplesPerDay])
		}
	}
	return joined
}

// common returns the rows of the larger set that are the machines of the smaller one.
func common(rows, fewer [][]float32) [][]float32 {
	logOf := func(rows [][]float32) (logs []float64) {
		for _, row := range rows {
			logs = append(logs, math.Log(mean(row[max(len(row)-samplesPerDay, 0):])+minMean))
		}
		return logs
	}
	a, b := logOf(rows), logOf(fewer)
	// cost[j][k] is the least sum of differences with which the first j+k of a contain the first j of b.
	more := len(a) - len(b)
	cost := make([][]float64, len(b)+1)
	for j := range cost {
		cost[j] = make([]float64, more+1)
		for k := range cost[j] {
			left := math.Inf(1)
			if k > 0 {
				left = cost[j][k-1]
			}
			if j > 0 {
				cost[j][k] = min(left, cost[j-1][k]+math.Abs(a[j+k-1]-b[j-1]))
			}
		}
	}
	kept := make([][]float32, len(b))
	for j, k := len(b), more; j > 0; {
		if k > 0 && cost[j][k] == cost[j][k-1] {
			k--
		} else {
			j--
			kept[j] = rows[j+k]
		}
	}
	return kept
}

func parseTraces(name string, content io.Reader) (*Traces, error) {
	t := &Traces{Name: name}
	lines := bufio.NewScanner(content)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ",")
		if len(fields) != samplesPerDay {
			return nil, fmt.Errorf("line %d: %d values; write %d, one for each five minutes of a day", n, len(fields), samplesPerDay)
		}
		row := make([]float32, len(fields))
		for i, field := range fields {
			percent, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
			if err != nil || !(percent >= 0 && percent <= 100) {
				return nil, fmt.Errorf("line %d: value %d is %q; write a CPU utilization in percent, from 0 to 100", n, i+1, field)
			}
			row[i] = float32(percent / 100)
		}
		t.Machines = append(t.Machines, row)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, err
	case len(t.Machines) == 0:
		return nil, errors.New("no row")
	}
	return t, nil
}

func mean(values []float32) float64 {
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(len(values))
}

// sorted returns the rows above zero, sorted within their blocks. A machine of zeros is missing from each block.
func (t *Traces) sorted() (rows [][]float32) {
	for block := range slices.Chunk(t.Machines, max(len(t.Machines)/max(t.Blocks, 1), 1)) {
		kept := slices.DeleteFunc(slices.Clone(block), func(row []float32) bool { return mean(row) == 0 })
		slices.SortStableFunc(kept, func(a, b []float32) int { return cmp.Compare(mean(a), mean(b)) })
		rows = append(rows, kept...)
	}
	return rows
}
