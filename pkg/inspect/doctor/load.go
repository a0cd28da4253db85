package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// String names the figure, such as "node-1 cpu".
func (f *figure) String() string {
	switch {
	case f.metric:
		return fmt.Sprintf("%s metric %q", f.node, text.Excerpt(f.Name))
	case f.Fraction > 0:
		return fmt.Sprintf("%s %s %g-quantile", f.node, f.Name, f.Fraction)
	}
	return f.node + " " + f.Name
}

// age is that of the newest sample of the figure.
func (s *sourceFacts) age(f *figure) time.Duration { return s.now.Sub(f.End) }

// figuresOf returns the figures that match.
func figuresOf(all []figure, matches func(*figure) bool) []*figure {
	var found []*figure
	for i := range all {
		if matches(&all[i]) {
			found = append(found, &all[i])
		}
	}
	return found
}

// nodesOf returns the nodes of the figures that match, sorted.
func nodesOf(all []figure, matches func(*figure) bool) []string {
	var nodes []string
	for _, f := range figuresOf(all, matches) {
		nodes = append(nodes, f.node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// listOf names the first of the figures.
func listOf(figures []*figure) string {
	var names []string
	for _, f := range figures {
		names = append(names, f.String())
	}
	slices.Sort(names)
	return text.FirstN(slices.Compact(names))
}

// checkAge checks how old the figures are.
func (s *sourceFacts) checkAge() []Check {
	known := figuresOf(s.figures, func(f *figure) bool { return f.State != load.Absent })
	if len(known) == 0 {
		return nil
	}
	byEnd := func(a, b *figure) int { return a.End.Compare(b.End) }
	oldest, newest := slices.MinFunc(known, byEnd), slices.MaxFunc(known, byEnd)
	if expired := figuresOf(s.figures, func(f *figure) bool { return f.State == load.Expired }); len(expired) > 0 {
		advice := run("", "Find out why the source no longer measures these nodes.")
		if s.diagnosis != nil {
			advice = run(s.queryCommand("up == 0"),
				"Find out why Prometheus no longer scrapes these nodes. See the targets that it cannot scrape:")
		}
		return fail(advice, "%s too old to be used, up to %s (%s): %s", plural(len(expired), "value is", "values are"),
			rounded(s.age(oldest)), oldest.node, listOf(expired))
	}
	ages := fmt.Sprintf("the newest samples of the nodes are %s to %s old; maxAge is %s", rounded(s.age(newest)),
		rounded(s.age(oldest)), oldest.maxAge)
	if i := slices.IndexFunc(known, func(f *figure) bool { return s.age(f) > f.maxAge/2 }); i >= 0 {
		return warn(write(fmt.Sprintf("maxAge: %s\n", (4*s.age(oldest)).Round(time.Second)),
			"%s trust load for longer, or let the source measure more often:",
			s.inConfiguration()), "%s: %s expires soon", ages, known[i].node)
	}
	return ok("%s", ages)
}

// checkZero checks for load at exactly 0, which no running node has.
func (s *sourceFacts) checkZero() []Check {
	known := func(f *figure) bool { return !f.metric && f.State != load.Absent }
	if len(figuresOf(s.figures, known)) == 0 {
		return nil
	}
	zero := figuresOf(s.figures, func(f *figure) bool { return known(f) && f.Value == 0 })
	if len(zero) == 0 {
		return ok("no node is at exactly 0")
	}
	metrics := live.ShellQuote("/api/v1/nodes/" + zero[0].node + "/proxy/metrics/resource")
	return warn(run(fmt.Sprintf("kubectl get --raw %s | grep ^node_", metrics),
		"The exporter does not see the load of these nodes. Compare with the kubelet, and restart the exporter:"),
		"%s at exactly 0, which no running node is: %s", plural(len(zero), "value is", "values are"), listOf(zero))
}

// checkDeviation checks that standard deviations are known, where a plugin uses them.
func (s *sourceFacts) checkDeviation() []Check {
	without, applies := s.withoutDeviation()
	switch {
	case !applies:
		return nil
	case len(without) == 0:
		return ok("the deviation is known wherever the mean is")
	case !s.usesDeviation:
		return ok("the deviation is not known, and counts as 0: %s; no enabled plugin uses it", text.FirstN(without))
	}
	window, interval := s.windows[0], time.Duration(0)
	if s.examination != nil {
		for _, sampling := range s.examination.Sampling {
			interval = max(interval, sampling.Interval)
		}
	}
	advice := run("",
		"Wait for %s, if these nodes are new. Otherwise let a custom query have a value over windows as short as a minute.", window)
	if longer := min(cmp.Or(roundUp(5*interval), 2*window), time.Hour); longer > window {
		advice = write(fmt.Sprintf("window: %s\n", longer),
			"A deviation takes five samples in a window. %s use a longer window, or let the source measure more often:", s.inConfiguration())
	}
	return warn(advice, "the deviation is not known, and counts as 0: %s", text.FirstN(without))
}

// withoutDeviation returns what has a mean and no deviation, and whether there are means at all.
// Only a Prometheus tells how many nodes have one. From another source, 0 on every node means unknown.
func (s *sourceFacts) withoutDeviation() (without []string, applies bool) {
	if s.diagnosis == nil {
		windowed := figuresOf(s.figures, func(f *figure) bool { return f.windowed && f.State != load.Absent })
		for _, f := range windowed {
			if f.deviation != 0 {
				return nil, true
			}
			without = append(without, f.String())
		}
		return without, len(windowed) > 0
	}
	type statistic struct {
		resource load.Resource
		window   time.Duration
		dialect  promql.Dialect
	}
	deviations := map[statistic]int{}
	for i := range s.diagnosis.Queries {
		if q := &s.diagnosis.Queries[i]; q.Kind == promql.StdDev {
			deviations[statistic{q.Resource, q.Window, q.Dialect}] = q.Nodes
		}
	}
	for i := range s.diagnosis.Queries {
		q := &s.diagnosis.Queries[i]
		if q.Kind != promql.Mean || q.Fraction > 0 {
			continue
		}
		applies = true
		if n, asked := deviations[statistic{q.Resource, q.Window, q.Dialect}]; asked && n < q.Nodes {
			without = append(without, fmt.Sprintf("%s on %s", q.Statistic(), text.Count(q.Nodes-n, "node")))
		}
	}
	slices.Sort(without)
	return without, applies
}

// checkDuration checks how long a refresh takes.
func (s *sourceFacts) checkDuration() []Check {
	interval, timeout := s.Spec.RefreshInterval.Duration, s.Spec.MetricProvider.Timeout.Duration
	message := fmt.Sprintf("a refresh took %s; refreshInterval is %s, timeout %s", rounded(s.Took), interval, timeout)
	enough := max(3*s.Took, time.Second).Round(time.Second)
	switch {
	case s.Took > interval:
		return warn(
			write(fmt.Sprintf("refreshInterval: %s\n", enough), "%s refresh less often than a refresh takes:", s.inConfiguration()),
			"%s",
			message,
		)
	case s.Took > timeout/2:
		return warn(
			write(providerYAML("timeout", enough.String()), "%s allow more time, for some refreshes take longer:", s.inConfiguration()),
			"%s",
			message,
		)
	}
	return ok("%s", message)
}

// checkClock compares the source's clock with the API server's.
func (s *sourceFacts) checkClock() []Check {
	d := s.diagnosis
	if d.SampleAges.Nodes == 0 && d.Skew == 0 {
		return nil
	}
	skew, reference := d.Skew, "this machine's"
	if s.server.SkewKnown {
		skew, reference = d.Skew-s.server.Skew, "the API server's"
	}
	slack := live.SkewResolution
	if skew < 0 { // a slow response looks like a clock that is behind
		slack += s.Took
	}
	const notable = 10 * time.Second
	switch {
	case skew.Abs() <= slack:
		return ok("the source's clock agrees with %s", reference)
	case skew.Abs() < notable+slack:
		return ok("the source's clock differs from %s by %s", reference, rounded(skew))
	}
	direction := "back"
	if skew < 0 {
		direction = "forward"
	}
	return fail(run("timedatectl status", "Set the clock of Prometheus' machine %s by %s, or remove the cache in between:",
		direction, rounded(skew.Abs())), "the source's clock differs from %s by %s", reference, rounded(skew))
}
