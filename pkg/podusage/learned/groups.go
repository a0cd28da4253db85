package learned

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const (
	// MaxGroups bounds the groups of workloads. Beyond it, those with the least PodTime go.
	MaxGroups = 40000
	// unknownSpread is the spread of a kind of group without data: members deviate by all of their mean.
	unknownSpread = 1.0
	// kindWeight is the weight of unknownSpread in a kind, and groupWeight that of a kind in its groups, in members.
	kindWeight, groupWeight = 5.0, 2.0
)

// group holds the usage of workloads that resemble each other, in float32 to halve its size: there may be many.
//
// A group of one namespace counts workloads. A group of all namespaces counts each namespace once, with its mean. So no
// number of workloads lets one tenant steer others.
type group struct {
	resources [load.ResourceCount]groupUsage
	workloads uint32
}

type groupUsage struct {
	// weight is the number of workloads or namespaces. One that was observed for a short time counts less.
	weight float32
	// mean is that of the members' means, variance the mean of the variances within members.
	mean, variance float32
	// spread is the sum of the members' squared deviations from mean, over mean².
	spread float32
}

// groups are by hash: see likeness.
type groups struct {
	// likes has the likeness of each workload's pods, by the workload's hash.
	likes  map[uint64]likeness
	byHash map[uint64]group
	// kinds are by the hash of the namespace, and at 0 of the groups of all namespaces. So nobody changes how much the groups of
	// another namespace count. A namespace without two of a kind has unknownKinds.
	kinds map[uint64]*kindSpreads
}

// kindSpreads are the mean spreads of the members of each kind of group.
type kindSpreads [resemblances][load.ResourceCount]float32

var unknownKinds = func() (k kindSpreads) {
	for by := range k {
		for r := range k[by] {
			k[by][r] = unknownSpread
		}
	}
	return k
}()

// Scopes of a group.
const (
	allNamespaces = iota
	oneNamespace
	scopes
)

// groupSums adds up a group.
type groupSums struct {
	resources  [load.ResourceCount]usageSums
	workloads  uint32
	podSeconds float64
	by         resemblance
	// hash is the group's. For a group of one namespace, name is the hash of the group of all. Then neither namespace nor name is 0.
	hash, namespace, name uint64
}

type usageSums struct{ weight, mean, variance, squares float64 }

// add adds a member's mean and variance. Its inner spread is that of its own members.
func (u *usageSums) add(weight, mean, variance, inner float64) {
	if weight <= 0 {
		return
	}
	u.weight += weight
	share := weight / u.weight
	difference := mean - u.mean
	u.squares += weight*(difference*difference*(1-share)) + weight*inner
	u.mean += difference * share
	u.variance += (variance - u.variance) * share
}

// groupBy groups the workloads anew, by the likenesses of the tally's pods and by known ones.
func (s *Statistics) groupBy(t *Tally) {
	likes := make(map[uint64]likeness, len(t.workloads))
	for workload, of := range t.workloads {
		likes[s.hash(workload)] = likenessOf(s.key, of.pod)
	}
	s.regroup(likes)
}

// regroup groups the workloads anew, by newer likenesses and by known ones.
func (s *Statistics) regroup(newer map[uint64]likeness) {
	likes := make(map[uint64]likeness, max(len(s.groups.likes), len(newer)))
	maps.Copy(likes, s.groups.likes)
	maps.Copy(likes, newer)
	maps.DeleteFunc(likes, func(hash uint64, _ likeness) bool { _, ok := s.workloads[hash]; return !ok })
	s.groups = s.group(likes)
}

// group returns the groups of workloads. It reads them in an order of its own: sums of floats depend on it.
func (s *Statistics) group(likes map[uint64]likeness) groups {
	var order []*groupSums
	index := map[uint64]*groupSums{}
	of := func(hash uint64, by resemblance) *groupSums {
		g := index[hash]
		if g == nil {
			g = &groupSums{by: by, hash: hash}
			index[hash] = g
			order = append(order, g)
		}
		return g
	}
	for _, m := range s.members(likes) {
		for by, name := range m.like.names {
			if name != 0 {
				g := of(m.like.within(name), resemblance(by))
				g.namespace, g.name = m.like.namespace, name
				g.addWorkload(&m.entry)
			}
		}
	}
	for _, g := range order { // grows, but range sees the groups of one namespace alone
		of(g.name, g.by).addNamespace(g)
	}
	all := newGroups(order)
	all.likes = likes
	return all
}

// member is a workload and the likeness of its pods.
type member struct {
	entry
	like likeness
}

// members returns the workloads in an order that is the same in each run.
func (s *Statistics) members(likes map[uint64]likeness) []member {
	all := make([]member, 0, len(likes))
	for hash, like := range likes {
		all = append(all, member{entry: s.workloads[hash], like: like})
	}
	slices.SortFunc(all, func(a, b member) int {
		x, y := &a.resources[load.CPU], &b.resources[load.CPU]
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(x.podSeconds, y.podSeconds), cmp.Compare(x.mean, y.mean))
	})
	return all
}

func (g *groupSums) addWorkload(e *entry) {
	g.workloads++
	g.podSeconds += float64(e.podSeconds())
	for r := range e.resources {
		from := &e.resources[r]
		seconds := float64(from.podSeconds)
		g.resources[r].add(seconds/(seconds+correlation.Seconds()), float64(from.mean), float64(from.variance), 0)
	}
}

// addNamespace adds a group of one namespace, which counts once.
func (g *groupSums) addNamespace(of *groupSums) {
	g.workloads += of.workloads
	g.podSeconds += of.podSeconds
	for r := range of.resources {
		from := &of.resources[r]
		inner := 0.0
		if from.weight > 0 {
			inner = from.squares / from.weight
		}
		g.resources[r].add(min(from.weight, 1), from.mean, from.variance, inner)
	}
}

// newGroups keeps the most used groups.
func newGroups(sums []*groupSums) (all groups) {
	all.kinds = kindsOf(sums)
	if len(sums) > MaxGroups {
		slices.SortStableFunc(sums, func(a, b *groupSums) int { return cmp.Compare(b.podSeconds, a.podSeconds) })
		sums = sums[:MaxGroups]
	}
	all.byHash = make(map[uint64]group, len(sums))
	for _, s := range sums {
		g := group{workloads: s.workloads}
		for r := range s.resources {
			u := &s.resources[r]
			g.resources[r] = groupUsage{
				weight: float32(u.weight), mean: float32(u.mean), variance: float32(u.variance), spread: float32(u.spread()),
			}
		}
		all.byHash[s.hash] = g
	}
	return all
}

func (u *usageSums) spread() float64 {
	if u.mean <= 0 {
		return 0
	}
	return u.squares / (u.mean * u.mean)
}

// kindsOf returns the mean squared deviation of members in each kind of group, over their group's mean². A group whose members
// differ more than those of an unknown kind counts as one of them.
func kindsOf(sums []*groupSums) map[uint64]*kindSpreads {
	type total [resemblances][load.ResourceCount]struct{ spread, freedom float64 }
	totals := map[uint64]*total{}
	for _, s := range sums {
		for r := range s.resources {
			u := &s.resources[r]
			if u.weight <= 1 || u.mean <= 0 {
				continue
			}
			of := totals[s.namespace]
			if of == nil {
				of = &total{}
				totals[s.namespace] = of
			}
			freedom := u.weight - 1
			of[s.by][r].spread += min(u.spread(), unknownSpread*freedom)
			of[s.by][r].freedom += freedom
		}
	}
	kinds := make(map[uint64]*kindSpreads, len(totals))
	for namespace, of := range totals {
		k := &kindSpreads{}
		for by := range of {
			for r, t := range of[by] {
				k[by][r] = float32((t.spread + kindWeight*unknownSpread) / (t.freedom + kindWeight))
			}
		}
		kinds[namespace] = k
	}
	return kinds
}

// spreadOf is the expected squared deviation of one more member from the group's mean, over mean². A small group's is mostly that
// of its kind.
func (u *groupUsage) spreadOf(kind float32) float64 {
	freedom := math.Max(float64(u.weight)-1, 0)
	return (float64(u.spread) + groupWeight*float64(kind)) / (freedom + groupWeight)
}

// find returns the group of a likeness, and the spreads of its kind by load.Resource.
func (g *groups) find(l *likeness, by resemblance, scope int) (found group, kind [load.ResourceCount]float32, ok bool) {
	hash, namespace := l.names[by], uint64(0)
	if hash == 0 {
		return found, kind, false
	}
	if scope == oneNamespace {
		hash, namespace = l.within(hash), l.namespace
	}
	kinds := g.kinds[namespace]
	if kinds == nil {
		kinds = &unknownKinds
	}
	found, ok = g.byHash[hash]
	return found, kinds[by], ok
}
