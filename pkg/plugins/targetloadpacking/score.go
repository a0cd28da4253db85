package targetloadpacking

// Score rates a node by the CPU utilization, in percent of capacity, that it would have with the pod on it. It rises from
// target at an idle node to 100 at the target, in percent as well, and falls from target to 0 beyond it, so that nodes fill
// up to the target and no further. target is in [1, 99]; the result is in [0, 100].
//
// The formula is Trimaran's TargetLoadPacking (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func Score(utilization, target float64) float64 {
	switch {
	case utilization <= target:
		return (100-target)*utilization/target + target
	case utilization <= 100:
		return target * (100 - utilization) / (100 - target)
	}
	return 0
}
