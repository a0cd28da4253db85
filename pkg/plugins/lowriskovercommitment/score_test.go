package lowriskovercommitment

import (
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestLimitRisk(t *testing.T) {
	for _, tc := range []struct {
		name                           string
		request, limit, capacity, want float64
	}{
		{"limits within the capacity", 4, 8, 8, 0},
		{"limits beyond the capacity", 5, 10, 8, 0.4}, // (10 − 8) / (10 − 5)
		{"requests take the whole capacity", 8, 10, 8, 1},
		{"requests beyond the capacity", 9, 10, 8, 2}, // (10 − 8) / (10 − 9)
		{"requests beyond the capacity that are the limits", 10, 10, 8, math.Inf(1)},
		{"no capacity and no pods", 0, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "limitRisk", tc.want, limitRisk(tc.request, tc.limit, tc.capacity))
		})
	}
}

// deviationOf is the measured deviation at which, with a smoothing window of 5, loads have the given variance.
func deviationOf(variance float64) float64 { return math.Sqrt(variance / 5) }

func TestLoadRisk(t *testing.T) {
	for _, tc := range []struct {
		name                                       string
		request, limit, mean, stdDev, window, want float64
	}{
		// Mean 1/2 and variance 1/12: t = (1/4)/(1/12) − 1 = 2, α = β = 1, P(x) = x.
		{"uniform loads", 0.25, 2, 0.5, deviationOf(1.0 / 12), 5, 0.75},
		{"no smoothing", 0.25, 2, 0.5, math.Sqrt(1.0 / 12), 1, 0.75},
		// Mean 1/3 and variance 1/18: t = (2/9)·18 − 1 = 3, α = 1, β = 2, P(x) = 1 − (1 − x)².
		{"low loads", 0.5, 2, 1.0 / 3, deviationOf(1.0 / 18), 5, 0.25},
		// Mean 2/3 and variance 1/18: α = 2, β = 1, P(x) = x².
		{"high loads", 0.5, 2, 2.0 / 3, deviationOf(1.0 / 18), 5, 0.75},
		{"limits below the capacity", 0.5, 0.75, 0.5, deviationOf(1.0 / 12), 5, 1.0 / 3}, // 1 − 0.5 / 0.75
		{"limits that are the requests", 0.5, 0.5, 0.5, deviationOf(1.0 / 12), 5, 0},
		{"limits at the capacity", 0.5, 1, 0.5, deviationOf(1.0 / 12), 5, 0.5},
		// While a pod is resized, its request may still be above its limit.
		{"limits below the requests", 0.75, 0.5, 0.5, deviationOf(1.0 / 12), 5, 0.25},
		{"no pods", 0, 0, 0.5, deviationOf(1.0 / 12), 5, 0},
		{"pods that request nothing, with limits", 0, 0.5, 0.5, deviationOf(1.0 / 12), 5, 1},
		{"requests beyond the capacity", 1.5, 2, 0.5, deviationOf(1.0 / 12), 5, 0},
		{"steady load below the requests", 0.5, 2, 0.4, 0, 5, 0},
		{"steady load at the requests", 0.5, 2, 0.5, 0, 5, 0},
		{"steady load above the requests", 0.5, 2, 0.6, 0, 5, 1},
		{"steady load above the limits", 0.3, 0.4, 0.6, 0, 5, 1},
		{"almost steady load below the requests", 0.5, 2, 0.4, 1e-9, 5, 0},
		{"almost steady load above the requests", 0.5, 2, 0.6, 1e-9, 5, 1},
		// √5·σ = 0.0005, 1.5 deviations below 0.5: 1 − Φ(−1.5) = 0.93319.
		{"loads around the requests that hardly deviate", 0.49925, 2, 0.5, 0.0005 / math.Sqrt(5), 5, 0.93319},
		{"an idle node", 0.5, 2, 0, 0, 5, 0},
		{"an idle node that deviates", 0, 2, 0, 0.5, 5, 0},
		{"a full node", 0.5, 2, 1, 0.3, 5, 1},
		{"a full node whose pods request all of it", 1, 2, 1, 0.3, 5, 0},
		{"load above the capacity", 0.5, 2, 1.2, 0.3, 5, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "loadRisk", tc.want, loadRisk(tc.request, tc.limit, tc.mean, tc.stdDev, tc.window), cmpopts.EquateApprox(0, 1e-4))
		})
	}
}

// The highest deviation is bounded: at a mean of 1/2 to √(0.99/4), where t = 1/0.99 − 1 = 1/99 and α = β = 1/198. By
// symmetry half of the loads are below 1/2.
func TestLoadRisk_HighestDeviation(t *testing.T) {
	for _, stdDev := range []float64{0.3, 0.5, 1, 7, math.Inf(1)} {
		check.Equal(t, fmt.Sprintf("risk at a deviation of %v", stdDev), 0.5, loadRisk(0.5, 2, 0.5, stdDev, 5),
			cmpopts.EquateApprox(0, 1e-9))
	}
}

// Whatever is measured, a risk is in [0, 1], and falls with what is requested.
func TestLoadRisk_AnyLoad(t *testing.T) {
	extreme := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e-12), rapid.Float64Range(1-1e-12, 1),
		rapid.SampledFrom([]float64{0, 5e-324, 1e-300, 1e-160, math.SmallestNonzeroFloat64 * 3, 1 - 1e-16, 1, 1.5}))
	rapid.Check(t, func(t *rapid.T) {
		request, mean, stdDev := extreme.Draw(t, "request"), extreme.Draw(t, "mean"), extreme.Draw(t, "stdDev")
		limit := request + rapid.OneOf(extreme, rapid.Just(math.Inf(1))).Draw(t, "beyond the request")
		window := float64(rapid.Int64Range(1, math.MaxInt64).Draw(t, "window"))
		risk := loadRisk(request, limit, mean, stdDev, window)
		if !(risk >= 0 && risk <= 1) {
			t.Fatalf("risk %v of mean %v, deviation %v, request %v, limit %v, window %v", risk, mean, stdDev, request, limit, window)
		}
		if higher := loadRisk(request+0.01, limit+0.01, mean, stdDev, window); limit > 1 && higher > risk+1e-6 {
			t.Errorf("risk %v, but %v with more requested", risk, higher)
		}
	})
}

// The distribution function of gonum allocates nothing.
func TestLoadRisk_AllocatesNothing(t *testing.T) {
	for _, stdDev := range []float64{0, 1e-7, 1e-3, 0.1, 0.4} {
		check.Equal(t, fmt.Sprintf("allocations at a deviation of %v", stdDev), 0,
			testing.AllocsPerRun(100, func() { loadRisk(0.4, 0.7, 0.5, stdDev, 5) }))
	}
}

// published is the published formula for one resource, step by step. It has sums over the pods on the node, with the one to place
// and without. It integrates the density of the beta distribution.
func published(pods [][2]float64, pod [2]float64, capacity, mean, stdDev, weight float64) float64 {
	var request, limit float64
	for _, p := range pods {
		request += p[0]
		limit += p[1]
	}
	requestWith, limitWith := request+pod[0], limit+pod[1]
	riskLimit := 0.0
	if limitWith > capacity {
		riskLimit = (limitWith - capacity) / (limitWith - requestWith)
	}
	if most := math.Sqrt(mean * (1 - mean) * 0.99); stdDev > most {
		stdDev = most
	}
	logP := func(x float64) float64 {
		switch {
		case mean == 0 || stdDev == 0 && mean <= x:
			return 0
		case stdDev == 0:
			return math.Inf(-1)
		}
		t := mean*(1-mean)/(stdDev*stdDev) - 1
		return logBetaIntegral(mean*t, (1-mean)*t, x)
	}
	logAlloc := logP(math.Min(request/capacity, 1))
	if limit < capacity && request <= limit {
		if limit == 0 {
			logAlloc = 0
		} else if within := logP(limit / capacity); within > leastLog {
			logAlloc = math.Min(logAlloc-within, 0)
		}
	}
	return math.Min(weight*riskLimit+(1-weight)*(1-math.Exp(logAlloc)), 1)
}

// leastLog is the logarithm of the smallest float64 above 0, 2⁻¹⁰⁷⁴: the formula takes less for 0.
const leastLog = -1074 * math.Ln2

// logBetaIntegral is the logarithm of the beta distribution's integral from 0 to x. The integral itself would underflow.
// Quadrature is in the logarithm of the odds, in which the density is smooth for all parameters.
func logBetaIntegral(a, b, x float64) float64 {
	logOf := func(v float64) float64 { l, _ := math.Lgamma(v); return l }
	norm := logOf(a+b) - logOf(a) - logOf(b)
	logDensity := func(u float64) float64 { // of u = ln(t / (1 − t)): t^a·(1 − t)^b / B
		return norm - a*math.Log1p(math.Exp(-u)) - b*math.Log1p(math.Exp(u))
	}
	if x <= 0 || x >= 1 {
		return math.Log(x)
	}
	const steps, lowest = 5000, -600.0
	// Beyond dozens of deviations, the density is negligible. Left of the center it falls at least as steeply as at x, by a factor of e
	// over each 1/slope.
	center, width := math.Log(a/b), 60*(1/math.Sqrt(math.Min(a, b))+1/math.Min(a, b))
	to := math.Min(math.Log(x/(1-x)), center+width)
	from := center - width
	if slope := a*(1-x) - b*x; slope > 0 {
		from = math.Max(from, to-60/slope)
		if to <= center-width {
			from = to - 60/slope
		}
	}
	from = math.Max(lowest, from)
	highest, step := logDensity(math.Min(center, to)), (to-from)/steps
	sum := 0.0
	if from == lowest { // below, the density is e^(norm + a·u)
		sum = math.Exp(norm+a*lowest-highest) / a
	}
	for i := range steps {
		sum += math.Exp(logDensity(from+(float64(i)+0.5)*step)-highest) * step
	}
	return math.Min(highest+math.Log(sum), 0)
}

// Where every pod has requests and limits and the window covers all pods, scores equal the published formula's, within 1.
func TestScore_PublishedFormula(t *testing.T) {
	drawPod := func(t *rapid.T, name string) (*corev1.Pod, [load.ResourceCount][2]float64) {
		// Limits are within ten times the request, and within the node: up to there they count in full.
		millis := rapid.IntRange(450, 4000).Draw(t, "cpu request in milliCPU of "+name)
		mebi := rapid.IntRange(911, 8192).Draw(t, "memory request in MiB of "+name)
		cpuLimit := millis + rapid.IntRange(0, 4000).Draw(t, "cpu limit above it")
		memoryLimit := mebi + rapid.IntRange(0, 8192).Draw(t, "memory limit above it")
		request, limit := plugintest.CPUAndMemory(fmt.Sprint(millis, "m"), fmt.Sprint(mebi, "Mi")), plugintest.CPUAndMemory(
			fmt.Sprint(cpuLimit, "m"), fmt.Sprint(memoryLimit, "Mi"),
		)
		pod := plugintest.Running(st.MakePod().Name(name).UID(name).Req(request).Obj(), time.Hour)
		pod.Spec.Containers[0].Resources.Limits = st.MakePod().Lim(limit).Obj().Spec.Containers[0].Resources.Limits
		return pod, [load.ResourceCount][2]float64{
			load.CPU: {float64(millis), float64(cpuLimit)}, load.Memory: {float64(mebi) * (1 << 20), float64(memoryLimit) * (1 << 20)},
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		capacity := [load.ResourceCount]float64{load.CPU: 8000, load.Memory: 16 << 30}
		pod, states := drawPod(rt, "incoming")
		var pods []*corev1.Pod
		var sums [load.ResourceCount][][2]float64
		for i := range rapid.IntRange(0, 5).Draw(rt, "pods") {
			other, otherStates := drawPod(rt, fmt.Sprint("pod-", i))
			pods = append(pods, other)
			for r := range sums {
				sums[r] = append(sums[r], otherStates[r])
			}
		}
		window, risk := rapid.Int64Range(1, 10).Draw(rt, "smoothingWindowSize"), 0.0
		var measured load.NodeLoad
		var weights [load.ResourceCount]float64
		for r := range load.ResourceCount {
			mean := rapid.Float64Range(0, 1).Draw(rt, "mean")
			stdDev := rapid.OneOf(rapid.Float64Range(0.005, 0.5), rapid.Just(0.0)).Draw(rt, "stdDev")
			weights[r] = rapid.Float64Range(0, 1).Draw(rt, "weight")
			measured[r] = plugintest.Measurement(mean, stdDev)
			risk = math.Max(risk, published(sums[r], states[r], capacity[r], mean, stdDev*math.Sqrt(float64(window)), weights[r]))
		}
		args := fmt.Sprintf("smoothingWindowSize: %d\nriskLimitWeights: {cpu: %v, memory: %v}", window, weights[load.CPU],
			weights[load.Memory])
		pl := plugintest.Build(t, Describe().New, plugintest.Args(t, "LowRiskOverCommitmentArgs", args),
			map[string]load.NodeLoad{"n": measured})
		got := plugintest.Scores(t, pl, pod, plugintest.Node("n", plugintest.CPUAndMemory("8", "16Gi"), pods...))["n"]
		if want := 100 * (1 - risk); math.Abs(float64(got)-want) > 1 {
			rt.Fatalf("score %d, the published formula gives %v", got, want)
		}
	})
}
