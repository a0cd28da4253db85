package doctor

import "slices"

// check is a row of the tables of checks: run is a pure function of the facts F.
type check[F any] struct {
	id    string
	needs []need[F]
	run   func(F) []Result
}

// need returns nil if the facts have what a check needs.
type need[F any] func(F) *gap

// gap says why a fact is missing, and which group of checks says more. Without a reason the check does not apply.
type gap struct{ reason, group string }

func gapIf(missing bool, reason, group string) *gap {
	if !missing {
		return nil
	}
	return &gap{reason, group}
}

func (c *check[F]) missing(facts F) *gap {
	for _, need := range c.needs {
		if missing := need(facts); missing != nil {
			return missing
		}
	}
	return nil
}

// clusterChecks are the checks that run once.
func clusterChecks() []check[*facts] {
	type needs = []need[*facts]
	file, configured := needs{(*facts).needFile}, needs{(*facts).needConfiguration}
	listed, opened := needs{(*facts).needObjects}, needs{(*facts).needCluster}
	listedToo, withMetrics := needs{(*facts).needConfiguration, (*facts).needObjects}, needs{(*facts).needFile, (*facts).needMetrics}
	return []check[*facts]{
		{"configuration.found", nil, (*facts).checkFound},
		{"configuration.decodes", file, (*facts).checkDecodes},
		{"configuration.effect", file, findingsOf("configuration.effect")},
		{"configuration.weights", file, (*facts).checkWeights},
		{"configuration.profiles", file, findingsOf("configuration.profiles")},
		{"configuration.profiles", configured, (*facts).checkSharedProfile},
		{"configuration.runs", listedToo, (*facts).checkRuns},
		{"source.configured", opened, (*facts).checkConfigured},
		{"source.statistics", opened, (*facts).checkStatistics},
		{"source.pods", opened, (*facts).checkPods},
		{"nodes.found", listed, (*facts).checkNodes},
		{"nodes.modelled", listedToo, (*facts).checkPowerModels},
		{"permissions.list", nil, (*facts).checkLists},
		{"permissions.scheduler", configured, (*facts).checkPermissions},
		{"lines.room", needs{(*facts).needCluster, (*facts).needLines, (*facts).needAnswers}, (*facts).checkLines},
		{"lines.annotations", opened, (*facts).checkAnnotations},
		{"scheduler.ready", needs{(*facts).needFile, (*facts).needObjects}, (*facts).checkReady},
		{"scheduler.restarted", needs{(*facts).needFile, (*facts).needObjects}, (*facts).checkRestarted},
		{"scheduler.image", file, (*facts).checkImage},
		{"scheduler.leader", configured, (*facts).checkLeader},
		{"scheduler.metrics", file, (*facts).checkMetrics},
		{"scheduler.load", withMetrics, (*facts).checkLoadStates},
		{"scheduler.refreshes", withMetrics, (*facts).checkRefreshes},
		{"scheduler.statistics", withMetrics, (*facts).checkKnownWorkloads},
		{"scheduler.statistics", withMetrics, (*facts).checkSaves},
		{"scheduler.fallbacks", withMetrics, (*facts).checkFallbacks},
		{"scheduler.version", file, (*facts).checkVersion},
		{"scheduler.command", file, (*facts).checkCommand},
		{"pods.waiting", listed, (*facts).checkWaiting},
		{"rebalancer.alone", needs{(*facts).needMoves}, (*facts).checkAlone},
		{"rebalancer.budgets", needs{(*facts).needMoves}, (*facts).checkBudgets},
		{"rebalancer.permissions", needs{(*facts).needRebalancer}, (*facts).checkRebalancerPermissions},
		{"rebalancer.load", needs{(*facts).needRebalancer, (*facts).needCluster}, (*facts).checkReadsLoad},
	}
}

// sourceChecks are the checks that run for each source of load.
func sourceChecks() []check[*sourceFacts] {
	type needs = []need[*sourceFacts]
	opened := needs{(*sourceFacts).needCluster}
	answered := slices.Concat(opened, needs{(*sourceFacts).needAnswer})
	measured := slices.Concat(answered, needs{(*sourceFacts).needLoad})
	ofLoad := slices.Concat(answered, needs{(*sourceFacts).needLoadPlugin})
	prometheus := slices.Concat(answered, needs{(*sourceFacts).needPrometheus})
	prometheusLoad := slices.Concat(prometheus, ofLoad)
	sampled := slices.Concat(prometheusLoad, needs{(*sourceFacts).needExamination})
	return []check[*sourceFacts]{
		{stageResolves, opened, checkStage(stageResolves)},
		{stageConnects, opened, checkStage(stageConnects)},
		{stageTLS, opened, checkStage(stageTLS)},
		{stageAuthorized, opened, checkStage(stageAuthorized)},
		{stageAnswers, opened, checkStage(stageAnswers)},
		{"source.duration", answered, (*sourceFacts).checkDuration},
		{"source.examined", prometheus, (*sourceFacts).checkExamined},
		{"source.dialect", prometheusLoad, (*sourceFacts).checkDialect},
		{"source.queries", prometheus, (*sourceFacts).checkQueries},
		{"source.metrics", prometheus, (*sourceFacts).checkNodeMetrics},
		{"nodes.measured", ofLoad, (*sourceFacts).checkMeasured},
		{"nodes.nearest", prometheusLoad, (*sourceFacts).checkUnnamed},
		{"nodes.unmatched", prometheusLoad, (*sourceFacts).checkUnmatched},
		{"nodes.contested", prometheus, (*sourceFacts).checkContested},
		{"nodes.clusters", prometheusLoad, (*sourceFacts).checkClusters},
		{"time.clock", prometheus, (*sourceFacts).checkClock},
		{"time.scrape", sampled, (*sourceFacts).checkScrape},
		{"time.coverage", sampled, (*sourceFacts).checkCoverage},
		{"time.ahead", sampled, (*sourceFacts).checkAhead},
		{"time.behind", sampled, (*sourceFacts).checkBehind},
		{"time.age", measured, (*sourceFacts).checkAge},
		{"values.zero", measured, (*sourceFacts).checkZero},
		{"values.frozen", sampled, (*sourceFacts).checkFrozen},
		{"values.capacity", answered, (*sourceFacts).checkCapacity},
		{"values.deviation", measured, (*sourceFacts).checkDeviation},
	}
}
