package loadscore

// Packing scores nodes so that they fill up to a target and no further. It rises from target at a utilization of 0 to 100 at the
// target. From there it falls to target and on to 0 at a utilization of 100. Both arguments are in percent. The formula is that of
// Trimaran's TargetLoadPacking (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func Packing(utilization, target float64) float64 {
	switch {
	case utilization <= target:
		return (100-target)*utilization/target + target
	case utilization <= 100:
		return target * (100 - utilization) / (100 - target)
	}
	return 0
}
