package response

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	promlabels "github.com/prometheus/prometheus/model/labels"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// The labels that Prometheus gives the series of a scrape target.
const (
	jobLabel       = "job"
	namespaceLabel = "namespace"
	serviceLabel   = "service"
	podLabel       = promql.PodLabel
	instanceLabel  = "instance"
)

// TargetLabels returns labels and those of a target that are not among them. Queries that reduce to these show the target.
func TargetLabels(labels []string) []string {
	all := slices.Clone(labels)
	for _, label := range []string{instanceLabel, jobLabel, namespaceLabel, serviceLabel, podLabel} {
		if !slices.Contains(all, label) {
			all = append(all, label)
		}
	}
	return all
}

// Evidence shows whether a series may speak for the node that it names. Less is better.
type Evidence int

const (
	// Proven is a target on the node. Its instance is the node's address or name, or it is a pod there.
	Proven Evidence = iota
	// Untargeted is a series without a target: of a recording rule, of remote write or of an agent.
	Untargeted
	// Unproven is a target that is not known to be on the node.
	Unproven
	// Crowded is any target beside the sets in use, where a response with all of them is too large.
	Crowded
)

// TargetSet is a set of targets that are scraped alike, with the same evidence.
type TargetSet struct {
	Evidence                Evidence
	Job, Namespace, Service string
}

// String returns the set's labels as a PromQL selector.
func (s TargetSet) String() string {
	if s.Evidence == Crowded {
		return "a set of targets with too many series"
	}
	if s.Evidence == Untargeted && s.Job == "" && s.Namespace == "" && s.Service == "" {
		return "{} (no target)"
	}
	return s.Selector()
}

// Selector selects the set's series, for metricProvider.selector.
func (s TargetSet) Selector() string { return "{" + s.Matchers() + "}" }

// Matchers are the label matchers of Selector, without braces.
func (s TargetSet) Matchers() string {
	return fmt.Sprintf("job=%q, namespace=%q, service=%q", s.Job, s.Namespace, s.Service)
}

// matchers select the set's series.
func (s TargetSet) matchers() promql.Selector {
	return promql.Selector{
		promlabels.MustNewMatcher(promlabels.MatchEqual, jobLabel, s.Job),
		promlabels.MustNewMatcher(promlabels.MatchEqual, namespaceLabel, s.Namespace),
		promlabels.MustNewMatcher(promlabels.MatchEqual, serviceLabel, s.Service),
	}
}

// labels returns the set without its evidence.
func (s TargetSet) labels() TargetSet {
	s.Evidence = 0
	return s
}

// compare orders sets with as many nodes, so that all schedulers choose the same.
func (s TargetSet) compare(o TargetSet) int {
	return cmp.Or(cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Job, o.Job), cmp.Compare(s.Service, o.Service))
}

// Family are the queries that read the same series. They share the target set in use.
type Family struct {
	dialect  promql.Dialect
	resource load.Resource
	// expression is that of a node metric.
	expression string
}

// FamilyOf returns the family of a query.
func FamilyOf(q *promql.Query) Family {
	if q.Kind == promql.NodeMetric {
		return Family{expression: q.PromQL}
	}
	return Family{dialect: q.Dialect, resource: q.Resource}
}

// InUse are the target sets in use, the one used first first. A set that is absent keeps its place. So nobody takes it meanwhile.
type InUse map[Family][]TargetSet

// maxInUse bounds the sets in use. Later ones are not kept.
const maxInUse = 8

// Next returns the sets after a refresh: those of means and node metrics.
func (u InUse) Next(results []*Result) InUse {
	next := make(InUse, len(results))
	for _, r := range results {
		family := FamilyOf(r.Query)
		if _, ok := next[family]; ok || r.Query.Kind == promql.NewestSample || r.Query.Kind == promql.StdDev {
			continue
		}
		sets := slices.Clone(u[family])
		for _, set := range r.sets {
			if len(sets) < maxInUse && !slices.Contains(sets, set) {
				sets = append(sets, set)
			}
		}
		if len(sets) > 0 {
			next[family] = sets
		}
	}
	return next
}

// Selectors select the series of each set in use of a query.
func (u InUse) Selectors(q *promql.Query) (selectors []promql.Selector) {
	var asked []TargetSet
	for _, set := range u[FamilyOf(q)] {
		if of := set.labels(); !slices.Contains(asked, of) {
			asked, selectors = append(asked, of), append(selectors, set.matchers())
		}
	}
	return selectors
}

// LabelsOf returns the labels of the target set of a series.
func LabelsOf(series map[string]string) TargetSet {
	return TargetSet{Job: series[jobLabel], Namespace: series[namespaceLabel], Service: series[serviceLabel]}
}

// tier orders targets that are shown to be on the same node. Less is better: it takes more permissions to fake one.
type tier int

const (
	// hostPod is a pod in the network of the node. Pod Security keeps tenants from it.
	hostPod tier = iota
	// nodeAddress is the node's address or name, for no known pod: of the kubelet, for example.
	nodeAddress
	// elsewhere is a pod in the network of pods, or a node port. Whoever creates pods and Services can have it.
	elsewhere
)

// Node ports, as kube-apiserver gives them to Services by default: kubernetes.io/docs/concepts/services-networking/service.
const firstNodePort, lastNodePort = 30000, 32767

// targetSetOf returns the target set of a series that names a node, and the tier of its target there.
func (m *Matcher) targetSetOf(series map[string]string, position int) (TargetSet, tier) {
	set := LabelsOf(series)
	var at tier
	set.Evidence, at = m.evidence(series, position)
	return set, at
}

func (m *Matcher) evidence(series map[string]string, position int) (Evidence, tier) {
	instance, name := series[instanceLabel], series[podLabel]
	if instance == "" && name == "" {
		return Untargeted, elsewhere
	}
	at, ok := m.Index.Match(instance)
	onNode := ok && at == position
	if pod := m.pod(series[namespaceLabel], name); pod != nil {
		return evidenceOf(pod, m.Nodes[position].Name, instance, onNode)
	}
	// An ended pod may have had a node's name, and an instance of its own name with any port.
	switch isName := name != "" && source.HostOf(instance) == name; {
	case !onNode || isName:
		return Unproven, elsewhere
	case isNodePort(instance):
		return Proven, elsewhere
	}
	return Proven, nodeAddress
}

// evidenceOf is evidence for the target of a known pod. onNode reports whether the instance is the node.
func evidenceOf(pod *corev1.Pod, node, instance string, onNode bool) (Evidence, tier) {
	switch {
	case pod.Spec.NodeName != node || !onNode && !isOf(instance, pod):
		return Unproven, elsewhere // a pod may have the name of another node
	case pod.Spec.HostNetwork:
		return Proven, hostPod
	}
	return Proven, elsewhere
}

func isNodePort(instance string) bool {
	_, text, err := net.SplitHostPort(instance)
	if err != nil {
		return false
	}
	port, err := strconv.Atoi(text)
	return err == nil && port >= firstNodePort && port <= lastNodePort
}

// isOf reports whether an instance is an address or the name of the pod. Prometheus always sets it: where targets have no labels
// namespace and pod, a target can write these of any pod. A recording rule may have dropped it.
func isOf(instance string, pod *corev1.Pod) bool {
	host := source.HostOf(instance)
	return host == "" || host == pod.Name || slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
		return source.HostOf(ip.IP) == host
	})
}

// pod returns a pod, or nil if it is not known.
func (m *Matcher) pod(namespace, name string) *corev1.Pod {
	if m.Pods == nil || name == "" {
		return nil
	}
	pod, err := m.Pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return pod
}

// gone reports whether the target of a series was a pod that is no longer known.
func (m *Matcher) gone(series map[string]string) bool {
	name := series[podLabel]
	return m.Pods != nil && name != "" && m.pod(series[namespaceLabel], name) == nil
}

// claim is the value of a series for a node.
type claim struct {
	position int
	value    float64
	rank     int
	tier     tier
	// gone reports whether the target was a pod that is no longer known, as during a rollout of an exporter.
	gone bool
}

// claimant is a target set and its claims.
type claimant struct {
	set    TargetSet
	claims []claim
	// nodes is the number of nodes with a claim. given are those with its value, contested those with a value of another set.
	nodes, given, contested int
	// place is that among the sets in use, or their number.
	place int
	// tiers are the numbers of nodes with a claim of a tier or better.
	tiers [elsewhere + 1]int
}

// tier returns the best that the set has on at least half of some nodes.
func (c *claimant) tier(nodes int) tier {
	for s, count := range c.tiers {
		if count > 0 && 2*count >= nodes {
			return tier(s)
		}
	}
	return elsewhere
}

// claims collects the values of a response by target set.
type claims struct {
	claimants []*claimant
	bySet     map[TargetSet]*claimant
}

func (c *claims) add(set TargetSet, of claim) {
	found, ok := c.bySet[set]
	if !ok {
		if c.bySet == nil {
			c.bySet = map[TargetSet]*claimant{}
		}
		found = &claimant{set: set}
		c.bySet[set], c.claimants = found, append(c.claimants, found)
	}
	found.claims = append(found.claims, of)
}

func (c *claims) merge(o *claims) {
	for _, of := range o.claimants {
		for _, claim := range of.claims {
			c.add(of.set, claim)
		}
	}
}

// order sorts the claimants, the one to believe first:
//   - Evidence comes first.
//   - Then the tier, on half as many nodes as the largest set names.
//   - Then the sets in use.
//   - Then the number of nodes.
func (c *claims) order(nodes int, inUse []TargetSet) {
	var largest [Unproven + 1]int // a Crowded set claims nothing
	seen := make([][elsewhere + 1]*claimant, nodes)
	for _, of := range c.claimants {
		for _, claim := range of.claims {
			last := &seen[claim.position]
			for s := claim.tier; s <= elsewhere && last[s] != of; s++ {
				last[s] = of
				of.tiers[s]++
			}
		}
		of.nodes = of.tiers[elsewhere]
		largest[of.set.Evidence] = max(largest[of.set.Evidence], of.nodes)
		if of.place = slices.Index(inUse, of.set); of.place < 0 {
			of.place = len(inUse)
		}
	}
	slices.SortFunc(c.claimants, func(a, b *claimant) int {
		if c := cmp.Compare(a.set.Evidence, b.set.Evidence); c != 0 {
			return c
		}
		most := largest[a.set.Evidence]
		return cmp.Or(cmp.Compare(a.tier(most), b.tier(most)), cmp.Compare(a.place, b.place), cmp.Compare(b.nodes, a.nodes),
			a.set.compare(b.set))
	})
}

// Conflict has two target sets that name the same nodes.
type Conflict struct {
	// Used is the set that counts, and Ignored the one that does not.
	Used, Ignored TargetSet
	// OnHost reports whether the targets of the set used are pods in the network of nodes, as tenants' are not.
	OnHost bool
	// Nodes is the number of nodes that both name.
	Nodes int
}

// clean cleans the texts of the sets.
func (c *Conflict) clean(excerpt func(string) string) {
	for _, set := range []*TargetSet{&c.Used, &c.Ignored} {
		set.Job, set.Namespace, set.Service = excerpt(set.Job), excerpt(set.Namespace), excerpt(set.Service)
	}
}

// settle gives each node the value of one target set. At each node, targets in its network come first. A tenant's pods on many
// nodes must not outnumber an exporter on few. Then comes the first set that names the node. So a set that names some nodes
// alone is not lost.
func (r *Result) settle(c *claims, inUse InUse) {
	if len(c.claimants) == 0 {
		return
	}
	c.order(len(r.Values), inUse[FamilyOf(r.Query)])
	for _, onHost := range []bool{true, false} {
		for _, of := range c.claimants {
			for _, claim := range of.claims {
				switch v := &r.Values[claim.position]; {
				case (claim.tier < elsewhere) != onHost:
				case !v.Known:
					of.given++
					*v = Value{Value: claim.value, Known: true, Set: &of.set, rank: claim.rank, tier: claim.tier}
				case v.Set == &of.set:
					v.offer(claim)
				}
			}
		}
	}
	for i := range r.Values {
		r.Add(r.Values[i].Coverage())
	}
	for _, of := range c.claimants {
		if of.given > 0 {
			r.sets = append(r.sets, of.set)
		}
	}
	r.Used = &slices.MaxFunc(c.claimants, func(a, b *claimant) int { return cmp.Compare(a.given, b.given) }).set
	r.contest(c)
}

// contests reports whether a claim is against the set that counts. That of an ended pod of this set is not.
func (r *Result) contests(of *claimant, claim claim) bool {
	used := r.Values[claim.position].Set
	return used != &of.set && (!claim.gone || used.labels() != of.set.labels())
}

// contest counts the nodes that a second set names, and the rival of most of them.
func (r *Result) contest(c *claims) {
	last := make([]*claimant, len(r.Values))
	contested := make([]bool, len(r.Values))
	for _, of := range c.claimants {
		for _, claim := range of.claims {
			if last[claim.position] == of || !r.contests(of, claim) {
				continue
			}
			last[claim.position] = of
			of.contested++
			if !contested[claim.position] {
				contested[claim.position] = true
				r.Contested++
			}
		}
	}
	rival := slices.MaxFunc(c.claimants, func(a, b *claimant) int { return cmp.Compare(a.contested, b.contested) })
	if rival.contested > 0 {
		r.Conflict = r.conflictOf(rival)
	}
}

// conflictOf returns a claimant and the set that counts at a node where it does not.
func (r *Result) conflictOf(ignored *claimant) *Conflict {
	conflict := &Conflict{Used: *r.Used, Ignored: ignored.set, Nodes: ignored.contested}
	for _, claim := range ignored.claims {
		if v := &r.Values[claim.position]; r.contests(ignored, claim) {
			conflict.Used, conflict.OnHost = *v.Set, v.Set.Evidence == Proven && v.tier == hostPod
			break
		}
	}
	return conflict
}

// TargetSets counts the nodes of each target set, the largest first, in the first result of each resource's mean load. It
// returns at most as many sets as are kept in use.
func (m *Matcher) TargetSets(results []*Result) (all []source.TargetSet) {
	for resource := range load.ResourceCount {
		first := slices.IndexFunc(results, func(r *Result) bool {
			return r.Query.Kind == promql.Mean && r.Query.Resource == resource && r.Nodes > 0
		})
		if first < 0 {
			continue
		}
		nodes := map[source.TargetSet]int{}
		for _, v := range results[first].Values {
			if v.Known {
				nodes[source.TargetSet{
					Resource: resource, Job: m.excerpt(v.Set.Job), Namespace: m.excerpt(v.Set.Namespace), Service: m.excerpt(v.Set.Service),
				}]++
			}
		}
		var sets []source.TargetSet
		for set, n := range nodes {
			set.Nodes = n
			sets = append(sets, set)
		}
		slices.SortFunc(sets, func(a, b source.TargetSet) int {
			return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), SetOf(a).compare(SetOf(b)))
		})
		all = append(all, sets[:min(len(sets), maxInUse)]...)
	}
	return all
}

// SetOf returns a set without evidence of where its targets are. Without labels, it is that of series without a target.
func SetOf(s source.TargetSet) TargetSet {
	set := TargetSet{Job: s.Job, Namespace: s.Namespace, Service: s.Service}
	if set == (TargetSet{}) {
		set.Evidence = Untargeted
	}
	return set
}

// Ambiguous reports whether a tenant could have either set: by pods, or by an EndpointSlice with the nodes' addresses.
func (c *Conflict) Ambiguous() bool { return !c.OnHost && c.Used.Evidence == c.Ignored.Evidence }
