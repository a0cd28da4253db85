package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
)

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
