package doctor

import (
	"context"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Check is one check: Run is a pure function of the facts F. It runs if the facts have what it needs.
type Check[F any] struct {
	ID    string
	Needs []Need[F]
	Run   func(F) []Result
}

func (c Check[F]) id() string { return c.ID }

// Supplier supplies the checks of a group that another package has.
type Supplier struct {
	Group string
	// IDs are the names of all its checks, such as "rebalancer.alone".
	IDs []string
	// Read reads what the checks need, and returns those that apply.
	Read func(context.Context, *cluster.Connection, *Facts) []Check[*Facts]
}

// Need returns nil if the facts have what a check needs.
type Need[F any] func(F) *gap

// gap says why a fact is missing, and the check or group that says more. Without a reason the check does not apply.
type gap struct{ reason, cause string }

func gapIf(missing bool, reason, cause string) *gap {
	if !missing {
		return nil
	}
	return &gap{reason, cause}
}

func (c Check[F]) missing(facts F) *gap {
	for _, need := range c.Needs {
		if missing := need(facts); missing != nil {
			return missing
		}
	}
	return nil
}

// clusterChecks are the checks that run once.
func clusterChecks() []Check[*Facts] {
	type needs = []Need[*Facts]
	file, configured := needs{(*Facts).needFile}, needs{(*Facts).NeedConfiguration}
	listed, opened := needs{(*Facts).needObjects}, needs{(*Facts).NeedCluster}
	listedToo, withMetrics := needs{(*Facts).NeedConfiguration, (*Facts).needObjects}, needs{(*Facts).needFile, (*Facts).needMetrics}
	return []Check[*Facts]{
		{"configuration.found", nil, (*Facts).checkFound},
		{"configuration.decodes", file, (*Facts).checkDecodes},
		{"configuration.effect", file, findingsOf("configuration.effect")},
		{"configuration.weights", file, findingsOf("configuration.weights")},
		{"configuration.profiles", configured, (*Facts).checkStockProfile},
		{"configuration.runs", listedToo, (*Facts).checkRuns},
		{"source.configured", opened, (*Facts).checkConfigured},
		{"source.statistics", opened, (*Facts).checkStatistics},
		{"source.pods", opened, (*Facts).checkPods},
		{"nodes.found", listed, (*Facts).checkNodes},
		{"nodes.modelled", listedToo, findingsOf("nodes.modelled")},
		{"permissions.list", nil, (*Facts).checkLists},
		{"permissions.scheduler", configured, (*Facts).checkPermissions},
		{"lines.room", needs{(*Facts).NeedCluster, (*Facts).needLines, (*Facts).needAnswers}, (*Facts).checkLines},
		{"lines.annotations", opened, (*Facts).checkAnnotations},
		{"scheduler.ready", needs{(*Facts).needFile, (*Facts).needObjects}, (*Facts).checkReady},
		{"scheduler.restarted", needs{(*Facts).needFile, (*Facts).needObjects}, (*Facts).checkRestarted},
		{"scheduler.image", file, (*Facts).checkImage},
		{"scheduler.leader", configured, (*Facts).checkLeader},
		{"scheduler.metrics", file, (*Facts).checkMetrics},
		{"scheduler.load", withMetrics, (*Facts).checkLoadStates},
		{"scheduler.refreshes", withMetrics, (*Facts).checkRefreshes},
		{"scheduler.statistics", withMetrics, (*Facts).checkKnownWorkloads},
		{"scheduler.fallbacks", withMetrics, (*Facts).checkFallbacks},
		{"scheduler.speed", needs{(*Facts).NeedConfiguration, (*Facts).needMetrics}, (*Facts).checkSpeed},
		{"scheduler.version", file, (*Facts).checkVersion},
		{"scheduler.command", file, (*Facts).checkCommand},
		{"pods.waiting", listed, (*Facts).checkWaiting},
		{"pods.groups", listed, (*Facts).checkGroups},
		{"pods.labeled", listed, (*Facts).checkLabels},
	}
}

// sourceChecks are the checks that run for each source of load.
func sourceChecks() []Check[*sourceFacts] {
	type needs = []Need[*sourceFacts]
	opened := needs{(*sourceFacts).NeedCluster}
	answered := slices.Concat(opened, needs{(*sourceFacts).needAnswer})
	measured := slices.Concat(answered, needs{(*sourceFacts).needLoad})
	ofLoad := slices.Concat(answered, needs{(*sourceFacts).needLoadPlugin})
	prometheus := slices.Concat(answered, needs{(*sourceFacts).needPrometheus})
	prometheusLoad := slices.Concat(prometheus, ofLoad)
	sampled := slices.Concat(prometheusLoad, needs{(*sourceFacts).needExamination})
	return []Check[*sourceFacts]{
		{"source.tls", answered, (*sourceFacts).checkTLS},
		{"source.answers", opened, (*sourceFacts).checkAnswers},
		{"source.duration", answered, (*sourceFacts).checkDuration},
		{"source.examined", prometheus, (*sourceFacts).checkExamined},
		{"source.dialect", prometheusLoad, (*sourceFacts).checkDialect},
		{"source.partial", prometheus, (*sourceFacts).checkPartial},
		{"source.selector", prometheusLoad, (*sourceFacts).checkSelector},
		{"source.queries", prometheus, (*sourceFacts).checkQueries},
		{"source.metrics", prometheus, (*sourceFacts).checkNodeMetrics},
		{"nodes.measured", ofLoad, (*sourceFacts).checkMeasured},
		{"nodes.nearest", prometheusLoad, (*sourceFacts).checkUnnamed},
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
		{"values.capacity", prometheus, (*sourceFacts).checkCapacity},
	}
}
