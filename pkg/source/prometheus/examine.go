package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const (
	// nearestCount is how many nodes without load get a Nearest.
	nearestCount = 10
	// candidateCount is how many recorded rules are proposed in place of a resource's queries.
	candidateCount = 3
	// shortestRun is the least number of characters that a label's value and a node's name share, for the one to be derived
	// from the other.
	shortestRun = 3
)

// Examination is what a Prometheus has, beyond what a Fetch reads, to find out why the Fetch missed something and how often nodes
// are measured. It must not be changed.
type Examination struct {
	// Sampling says how often the nodes are measured, by name of the Node. A node without series is left out.
	Sampling map[string]Sampling
	// Dialects are those other than the one in use that have series now, maybe too few samples; they are looked for if no node has
	// load.
	Dialects []Dialect
	// Labels name nodes that have no load, but are not among the NodeLabels: the one that names most first.
	Labels []LabelMatch
	// Relabelings derive names of nodes that have no load from a label's value: the one that names most first.
	Relabelings []Relabeling
	// Nearest are, of the first nodes without load, the series with the most similar label.
	Nearest []Nearest
	// Candidates are recorded rules that look like utilizations of nodes; they are looked for if no dialect has series.
	Candidates [load.ResourceCount][]Candidate
}

// Sampling says how often a node is measured.
type Sampling struct {
	// Interval is the mean time between two samples; 0 if it is not known.
	Interval time.Duration
	// Since is for how long the node has been measured without a gap of five minutes, at least; up to some windows.
	Since time.Duration
}

// LabelMatch is a label, and how many nodes without load its values name.
type LabelMatch struct {
	Label string
	Nodes int
}

// Relabeling is a relabel_config of Prometheus that makes the name of a Node from the value of a label.
type Relabeling struct {
	Label, Regex, Replacement string
	// Nodes is how many nodes without load it names.
	Nodes int
}

// Nearest is the series of which a label's value is most similar to a node's name; Series is empty if none is similar.
type Nearest struct{ Node, Series string }

// Candidate is a recorded rule.
type Candidate struct {
	Name string
	// Nodes is the number of nodes that have a value, and Highest the highest value.
	Nodes   int
	Highest float64
}

// rawSeries are series with all of their labels.
type rawSeries struct {
	labels map[string]string
	node   int // position of the Node that the NodeLabels name; -1 if there is none
}

// Examine sends a few more queries about what the last Fetch found over the windows, none of which returns more than about one series
// of each node. What cannot be read is left out. It fails if nothing could be read.
func (s *Source) Examine(ctx context.Context, windows []time.Duration) (Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return Examination{}, fmt.Errorf("list nodes: %w", err)
	}
	e := &examiner{
		Source: s,
		qr:     &querier{client: s.client, clock: s.clock, matcher: newMatcher(nodes, s.nodeLabels, s.client.http.Excerpt), logger: klog.FromContext(ctx)},
	}
	e.missing = map[string]bool{}
	for _, node := range s.diagnosis.NodesWithoutSeries {
		e.missing[node] = true
	}
	var result Examination
	var all []rawSeries
	var rawErr error
	dialect := s.dialect
	if len(e.missing) > 0 {
		if all, rawErr = e.raw(ctx, &result, windows); len(all) == 0 && rawErr == nil && s.planner.needsDialect() {
			all, rawErr = e.candidates(ctx, &result)
		}
		e.attribute(&result, all)
		if dialect == "" && len(result.Dialects) > 0 {
			dialect = result.Dialects[0]
		}
	}
	if len(windows) > 0 {
		result.Sampling, err = e.sampling(ctx, dialect, slices.Min(windows))
	}
	if err = cmp.Or(rawErr, err); err != nil && result.Sampling == nil && len(all) == 0 {
		return result, err
	}
	return result, nil
}

type examiner struct {
	*Source
	qr *querier
	// missing are the nodes without load.
	missing map[string]bool
}

// sampled returns a selector of the series whose samples stand for the load: one for each node, if there can be. It is empty if
// that cannot be known.
func (e *examiner) sampled(d Dialect) string {
	own := e.planner.own
	if own[load.Memory] == "" && d != "" {
		return firstOf(d.series(load.Memory), "%s")
	}
	for _, r := range []load.Resource{load.Memory, load.CPU} {
		if own[r] != "" && ownNewestSample(own[r], model.Duration(time.Minute)) != "" {
			return own[r]
		}
	}
	return ""
}

// sampling asks how often nodes are measured, by the series of a dialect, over some windows.
func (e *examiner) sampling(ctx context.Context, d Dialect, window time.Duration) (map[string]Sampling, error) {
	selector := e.sampled(d)
	if selector == "" || strings.Contains(selector, " or ") {
		return nil, nil
	}
	// Long enough for four samples, even where a window has none.
	lookback := max(4*window, 10*time.Minute)
	oldest := func(over, step time.Duration) string {
		return fmt.Sprintf("min by (%s) (min_over_time(timestamp(%s)[%s:%s]))", e.planner.by, selector, model.Duration(over), model.Duration(max(step, time.Second)))
	}
	const steps = 40
	promql := []string{oldest(lookback, lookback/steps), oldest(2*window, 2*window/steps)}
	// A node is counted over the longest of these spans that it has been measured for.
	var spans []time.Duration
	for span := lookback; span >= 10*time.Second && len(spans) < 7; span = (span / 2).Truncate(time.Second) {
		spans = append(spans, span)
		promql = append(promql, fmt.Sprintf("max by (%s) (count_over_time(%s[%s]))", e.planner.by, selector, model.Duration(span)))
	}
	results := e.qr.queryAll(ctx, nodeMetricQueries(promql))
	for _, r := range results {
		if r.err != nil {
			return nil, r.err
		}
	}
	const few = 10
	all := map[string]Sampling{}
	for i, node := range e.qr.matcher.nodes {
		sampling := Sampling{}
		for _, r := range results[:2] {
			if first, ok := r.sampleTime(i); ok {
				sampling.Since = max(sampling.Since, min(r.evaluated.Sub(first), lookback))
			}
		}
		if sampling.Since == 0 && !results[len(results)-1].values[i].known {
			continue
		}
		for j, span := range spans {
			n := results[2+j].values[i]
			if !n.known || n.value < 2 || span > sampling.Since {
				continue
			}
			sampling.Interval = time.Duration(float64(span) / n.value)
			if n.value < few {
				sampling.Interval = time.Duration(float64(span) / (n.value - 1)) // rather too long
			}
			break
		}
		all[node.Name] = sampling
	}
	return all, nil
}

// raw returns the series from which load is read, or would be, with all of their labels. If no node has load, it looks for all
// dialects.
func (e *examiner) raw(ctx context.Context, result *Examination, windows []time.Duration) ([]rawSeries, error) {
	var all []rawSeries
	var errs []error
	read := func(promql string) int {
		series, err := e.series(ctx, promql)
		errs = append(errs, err)
		all = append(all, series...)
		return len(series)
	}
	for r := range load.ResourceCount {
		if own := e.planner.own[r]; own != "" && len(windows) > 0 {
			read(withWindow(own, model.Duration(windows[0])))
		}
	}
	if !e.planner.needsDialect() {
		return all, errors.Join(errs...)
	}
	if e.dialect != "" && len(e.missing) < len(e.qr.matcher.nodes) {
		read(firstOf(e.dialect.series(load.Memory), "%s"))
		return all, errors.Join(errs...)
	}
	for _, d := range autoOrder() {
		if n := read(firstOf(d.series(load.Memory), "%s")); n > 0 && d != e.dialect {
			result.Dialects = append(result.Dialects, d)
		}
	}
	return all, errors.Join(errs...)
}

// series returns the series of a query with all of their labels.
func (e *examiner) series(ctx context.Context, promql string) ([]rawSeries, error) {
	var all []rawSeries
	_, err := e.qr.client.query(ctx, promql, len(e.qr.matcher.nodes), func(s *series) {
		all = append(all, rawSeries{maps.Clone(s.Metric), e.position(s.Metric)})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (e *examiner) position(metric map[string]string) int {
	if position, _, ok := e.qr.matcher.match(metric); ok {
		return position
	}
	return -1
}

// candidates looks for recorded rules that look like utilizations of nodes, whatever label names the nodes.
func (e *examiner) candidates(ctx context.Context, result *Examination) ([]rawSeries, error) {
	var all []rawSeries
	type rule struct {
		nodes   map[string]bool
		lowest  float64
		highest float64
	}
	rules := map[string]*rule{}
	// Recorded rules have a colon in their names, by convention.
	const promql = `{__name__=~".*:.*(cpu|memory).*"}`
	_, err := e.qr.client.query(ctx, promql, len(e.qr.matcher.nodes), func(s *series) {
		name := s.Metric[model.MetricNameLabel]
		if !model.LegacyValidation.IsValidMetricName(name) {
			return
		}
		for label, value := range s.Metric {
			node, ok := e.qr.matcher.index.Match(value)
			if !ok || label == model.MetricNameLabel {
				continue
			}
			if rules[name] == nil {
				rules[name] = &rule{nodes: map[string]bool{}, lowest: math.Inf(1), highest: math.Inf(-1)}
			}
			r := rules[name]
			r.nodes[node.Name] = true
			r.lowest, r.highest = min(r.lowest, s.Value.value), max(r.highest, s.Value.value)
			all = append(all, rawSeries{maps.Clone(s.Metric), e.position(s.Metric)})
			break
		}
	})
	if err != nil {
		return nil, err
	}
	for name, r := range rules {
		if !(r.lowest >= 0 && r.highest <= 1) {
			continue // no fractions of capacity
		}
		resource := load.CPU
		if strings.Contains(name, "memory") {
			resource = load.Memory
		}
		result.Candidates[resource] = append(result.Candidates[resource], Candidate{Name: name, Nodes: len(r.nodes), Highest: r.highest})
	}
	for r := range result.Candidates {
		slices.SortFunc(result.Candidates[r], func(a, b Candidate) int {
			return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Name, b.Name))
		})
		result.Candidates[r] = result.Candidates[r][:min(candidateCount, len(result.Candidates[r]))]
	}
	return all, nil
}

// attribute finds out which labels name the nodes without load, or nearly so.
func (e *examiner) attribute(result *Examination, all []rawSeries) {
	named := map[string]map[string]bool{}
	var unmatched []rawSeries
	for _, s := range all {
		if s.node >= 0 {
			continue
		}
		found := false
		for label, value := range s.labels {
			node, ok := e.qr.matcher.index.Match(value)
			if !ok || !e.missing[node.Name] || label == model.MetricNameLabel || !model.LegacyValidation.IsValidLabelName(label) {
				continue
			}
			found = true
			if named[label] == nil {
				named[label] = map[string]bool{}
			}
			named[label][node.Name] = true
		}
		if !found {
			unmatched = append(unmatched, s)
		}
	}
	for label, nodes := range named {
		result.Labels = append(result.Labels, LabelMatch{Label: label, Nodes: len(nodes)})
	}
	slices.SortFunc(result.Labels, func(a, b LabelMatch) int { return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Label, b.Label)) })
	e.nearest(result, all, unmatched)
}

// nearest finds, for the first nodes without load, the most similar series, and how their names follow from its labels.
func (e *examiner) nearest(result *Examination, all, unmatched []rawSeries) {
	tried := map[Relabeling]bool{}
	for _, node := range slices.Sorted(maps.Keys(e.missing))[:min(nearestCount, len(e.missing))] {
		nearest := Nearest{Node: node}
		longest, at := min(shortestRun, len(node)), Relabeling{}
		var labels map[string]string
		for _, s := range all {
			if s.node >= 0 {
				continue
			}
			for label, value := range s.labels {
				run, inName, inValue := longestRun(node, value)
				if label == model.MetricNameLabel || !model.LegacyValidation.IsValidLabelName(label) || run < longest || run == longest && at.Label != "" && label >= at.Label {
					continue
				}
				longest, labels = run, s.labels
				at = Relabeling{
					Label:       label,
					Regex:       regexp.QuoteMeta(value[:inValue]) + "(.+)" + regexp.QuoteMeta(value[inValue+run:]),
					Replacement: node[:inName] + "${1}" + node[inName+run:],
				}
			}
		}
		if labels != nil {
			nearest.Series = e.describe(labels)
		}
		result.Nearest = append(result.Nearest, nearest)
		if labels == nil || tried[at] {
			continue
		}
		tried[at] = true
		if at.Nodes = e.named(at, unmatched); at.Nodes > 0 {
			result.Relabelings = append(result.Relabelings, at)
		}
	}
	slices.SortStableFunc(result.Relabelings, func(a, b Relabeling) int { return b.Nodes - a.Nodes })
}

// named returns how many nodes without load the relabeling names.
func (e *examiner) named(r Relabeling, unmatched []rawSeries) int {
	pattern, err := regexp.Compile("^(?:" + r.Regex + ")$")
	if err != nil {
		return 0
	}
	nodes := map[string]bool{}
	for _, s := range unmatched {
		value := s.labels[r.Label]
		if match := pattern.FindStringSubmatchIndex(value); match != nil {
			if name := string(pattern.ExpandString(nil, r.Replacement, value, match)); e.missing[name] {
				nodes[name] = true
			}
		}
	}
	return len(nodes)
}

// describe writes all labels of a series, as they may be shown.
func (e *examiner) describe(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != model.MetricNameLabel {
			parts = append(parts, fmt.Sprintf("%s=%q", e.qr.matcher.excerpt(name), e.qr.matcher.excerpt(labels[name])))
		}
	}
	return text.Excerpt(e.qr.matcher.excerpt(labels[model.MetricNameLabel]) + "{" + strings.Join(parts, ", ") + "}")
}

// longestRun returns the length of the longest text that both have, without regard to case, and where it begins in each.
func longestRun(a, b string) (length, inA, inB int) {
	const longest = 256 // label values may be of any length
	b = b[:min(len(b), longest)]
	previous, current := make([]int, len(b)+1), make([]int, len(b)+1)
	for i := range len(a) {
		for j := range len(b) {
			current[j+1] = 0
			if lower(a[i]) == lower(b[j]) {
				current[j+1] = previous[j] + 1
			}
			if current[j+1] > length {
				length, inA, inB = current[j+1], i+1-current[j+1], j+1-current[j+1]
			}
		}
		previous, current = current, previous
	}
	return length, inA, inB
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Series is one element of an instant vector, with its labels as the server wrote them.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Series returns the result of any instant query, which must be about as small as one about each node.
func (s *Source) Series(ctx context.Context, promql string) ([]Series, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var all []Series
	if _, err := s.client.query(ctx, promql, len(nodes), func(v *series) {
		all = append(all, Series{Labels: maps.Clone(v.Metric), Value: v.Value.value})
	}); err != nil {
		return nil, err
	}
	return all, nil
}
