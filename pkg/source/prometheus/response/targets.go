package response

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// Select the series that give a node's load:
//   - With metricProvider.selector, only series that match it are read.
//   - Series whose instance is an address or the name of the node come before all others.
//   - If two target sets of the series that count differ by more than tolerance, the node is contested and has no load. Otherwise
//     the highest value counts.

// tolerance is the difference of two target sets above which a node is contested, as a fraction of capacity.
const tolerance = 0.05

// The labels that Prometheus gives the series of a scrape target.
const (
	jobLabel       = "job"
	namespaceLabel = "namespace"
	serviceLabel   = "service"
	podLabel       = promql.PodLabel
	instanceLabel  = "instance"
)

// TargetLabels appends the missing labels of a target to labels. A query that aggregates by them keeps the target visible.
func TargetLabels(labels []string) []string {
	all := slices.Clone(labels)
	for _, label := range []string{instanceLabel, jobLabel, namespaceLabel, serviceLabel, podLabel} {
		if !slices.Contains(all, label) {
			all = append(all, label)
		}
	}
	return all
}

// TargetSet is a set of targets of the same job, namespace and service.
type TargetSet struct{ Job, Namespace, Service string }

// LabelsOf returns the target set of a series.
func LabelsOf(series map[string]string) TargetSet {
	return TargetSet{Job: series[jobLabel], Namespace: series[namespaceLabel], Service: series[serviceLabel]}
}

// String returns the set's labels as a PromQL selector, for metricProvider.selector.
func (s TargetSet) String() string { return "{" + s.Matchers() + "}" }

// Matchers are the label matchers of String, without braces.
func (s TargetSet) Matchers() string {
	return fmt.Sprintf("job=%q, namespace=%q, service=%q", s.Job, s.Namespace, s.Service)
}

func (s TargetSet) compare(o TargetSet) int {
	return cmp.Or(cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Job, o.Job), cmp.Compare(s.Service, o.Service))
}

func (s TargetSet) clean(excerpt func(string) string) TargetSet {
	return TargetSet{Job: excerpt(s.Job), Namespace: excerpt(s.Namespace), Service: excerpt(s.Service)}
}

type claim struct {
	position int
	// order is the place of dialect among the query's.
	order   int
	dialect promql.Dialect
	value   float64
	// own reports whether the series' instance is the node.
	own bool
	set *TargetSet
	// rank is the position in nodeLabels of the series label that matched the node. 0 is preferred.
	rank int
}

// Contested is a node that two target sets measure differently.
type Contested struct {
	Position  int
	High, Low TargetSet
}

// settle gives each node a value of the first dialect that has one, or finds it contested. Of the series of one target set, that
// with the earliest of nodeLabels counts, then the greatest: a replaced pod's series may still be there.
func (r *Result) settle(claims []claim, excerpt func(string) string) {
	slices.SortFunc(claims, func(a, b claim) int {
		own := 0
		if a.own != b.own {
			if own = 1; a.own {
				own = -1
			}
		}
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.order, b.order), own, a.set.compare(*b.set),
			cmp.Compare(a.rank, b.rank), cmp.Compare(b.value, a.value))
	})
	for i := 0; i < len(claims); {
		first, low, high := claims[i], claims[i], claims[i]
		for last := first.set; i < len(claims) && claims[i].position == first.position; i++ {
			if c := claims[i]; c.order == first.order && c.own == first.own && c.set != last {
				last = c.set
				if c.value > high.value {
					high = c
				}
				if c.value < low.value {
					low = c
				}
			}
		}
		if first.own {
			r.Own++
		}
		if r.Query.Kind <= promql.StdDev && high.value-low.value > tolerance {
			r.Contested = append(r.Contested, Contested{first.position, high.set.clean(excerpt), low.set.clean(excerpt)})
			continue
		}
		r.Values[first.position] = Value{Value: high.value, Known: true, Dialect: first.dialect}
		r.Nodes++
	}
}
