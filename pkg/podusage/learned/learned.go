// Package learned keeps statistics of each workload over about a day: mean and variance of one pod's usage.
// They are read outside the scheduling cycle, and published as immutable Statistics.
package learned

import (
	"cmp"
	"hash/crc32"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Moments are statistics of one pod's usage of one resource. Mean is in milliCPU or bytes, Variance in their squares.
type Moments struct {
	// PodTime is how long pods were observed, summed over the pods. What is older than History counts less and less.
	PodTime        time.Duration
	Mean, Variance float64
	// Within is the part of Variance within one pod over time. The rest is between pods.
	Within float64
}

// StdDev is the standard deviation, in milliCPU or bytes.
func (m Moments) StdDev() float64 { return math.Sqrt(m.Variance) }

// Observation is the usage of one resource by the pods of one workload, at a moment or averaged over Span.
type Observation struct {
	Workload Workload
	Resource load.Resource
	At       time.Time
	Span     time.Duration
	// Pods counts pods, Sum adds up their usages in milliCPU or bytes, and SumSquares the squares.
	// Within adds up the squared deviations of pods from their own means.
	// A pod observed for a part of Span counts with that part in all four.
	Pods, Sum, SumSquares, Within float64
}

// Config bounds what a Statistics keeps.
type Config struct {
	// History is how far back observations count: their weight falls by a factor of e over each History.
	History time.Duration
	// MaxWorkloads bounds the number of workloads. To evict the live workloads of others, a tenant has to run more pods for longer.
	MaxWorkloads int
}

// Statistics holds the statistics of all workloads at one moment. It is immutable, and safe for concurrent use. The zero value
// knows no workload.
type Statistics struct {
	at time.Time
	// workloads are by hash of their names: names would take more memory than all else.
	workloads map[uint64]entry
	// pods are those observed lately, by hash of their UIDs.
	pods map[uint64]podEntry
	// seed is that of all hashes, so that nobody can choose names of equal hash.
	seed maphash.Seed
	// startups are the workloads that were observed while they started, by the hash of workloads. The observations are interval apart.
	startups map[uint64]startupEntry
	interval time.Duration
	cluster  ClusterUsage
}

// ClusterUsage has averages over all pods of the cluster, by load.Resource.
type ClusterUsage struct {
	// UsagePerRequest is usage over request of pods with requests, averaged over History. 0 means that it is not known.
	UsagePerRequest [load.ResourceCount]float64
	// observed is the weight of UsagePerRequest at the moment at: the sum of requests in milliCPU or bytes. Older ones count less.
	observed [load.ResourceCount]float64
	at       time.Time
}

// entry holds the Moments of one workload, in float32 to halve their size: there may be many.
type entry struct {
	resources [load.ResourceCount]MomentsRecord
	seen      uint32
	// rank decides between workloads of equal PodTime: a hash of the name that is the same at each start.
	rank uint32
}

// At is the moment of the newest observation; zero if there is none.
func (s *Statistics) At() time.Time { return s.at }

func (s *Statistics) Len() int { return len(s.workloads) }

func (s *Statistics) Cluster() ClusterUsage { return s.cluster }

// Lookup returns the statistics of one pod of the workload, by load.Resource. Unobserved resources have a PodTime of 0.
// It does not allocate.
func (s *Statistics) Lookup(w Workload) (moments [load.ResourceCount]Moments) {
	moments, _ = s.lookup(w)
	return moments
}

func (s *Statistics) lookup(w Workload) (moments [load.ResourceCount]Moments, startup Startup) {
	if len(s.workloads) == 0 {
		return moments, startup
	}
	hash := s.hash(w)
	e, ok := s.workloads[hash]
	if !ok {
		return moments, startup
	}
	for r := range moments {
		moments[r] = e.moments(load.Resource(r))
	}
	if starts, ok := s.startups[hash]; ok {
		startup = starts.startup(&moments[load.CPU], s.interval)
	}
	return moments, startup
}

func (e *entry) moments(r load.Resource) Moments {
	from := &e.resources[r]
	return Moments{
		PodTime: podTime(from.PodSeconds), Mean: float64(from.Mean), Variance: float64(from.Variance), Within: float64(from.Within),
	}
}

// podTime converts seconds, which may exceed the 292 years of a Duration.
func podTime(seconds float32) time.Duration {
	const longest = float64(1<<63 - 1<<10) // the largest float64 that a Duration holds
	return time.Duration(min(float64(seconds)*float64(time.Second), longest))
}

func (s *Statistics) hash(w Workload) uint64 { return maphash.Comparable(s.seed, w) }

// With returns the statistics with the observations added, each weighted by its age. s is not changed.
func (s *Statistics) With(observations []Observation, cluster ClusterUsage, c Config) *Statistics {
	s = s.seeded()
	next := &Statistics{
		at: s.at, seed: s.seed, pods: s.pods, startups: s.startups, interval: s.interval, cluster: cluster,
		workloads: make(map[uint64]entry, len(s.workloads)),
	}
	for i := range observations {
		if at := observations[i].At; at.After(next.at) {
			next.at = at
		}
	}
	// All weights are those of the moment next.at.
	decay := 0.0
	if !s.at.IsZero() {
		decay = weightAt(next.at.Sub(s.at), c.History)
	}
	for hash, e := range s.workloads {
		for r := range e.resources {
			e.resources[r].PodSeconds *= float32(decay)
		}
		next.workloads[hash] = e
	}
	for i := range observations {
		o := &observations[i]
		if !o.valid() {
			continue
		}
		hash := next.hash(o.Workload)
		e, known := next.workloads[hash]
		if !known {
			e.rank = rank(o.Workload)
		}
		e.add(o, weightAt(next.at.Sub(o.At), c.History))
		next.workloads[hash] = e
	}
	next.forget(c)
	return next
}

func (s *Statistics) seeded() *Statistics {
	if s.workloads != nil {
		return s
	}
	return &Statistics{seed: maphash.MakeSeed(), workloads: map[uint64]entry{}}
}

func rank(w Workload) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(w.Namespace)), crc32.IEEETable, []byte("/"+w.Name))
}

func weightAt(age, history time.Duration) float64 {
	return math.Exp(-age.Seconds() / history.Seconds())
}

// maxUsage is more than any pod uses, in milliCPU or bytes. Squares of smaller values fit into a float32.
const maxUsage = 1e15

func (o *Observation) valid() bool {
	possible := func(sum, most float64) bool { return sum >= 0 && sum <= most*o.Pods }
	return o.Pods > 0 && o.Pods <= math.MaxInt32 && o.Span > 0 && possible(o.Sum, maxUsage) &&
		possible(o.SumSquares, maxUsage*maxUsage) && possible(o.Within, maxUsage*maxUsage)
}

// add adds an observation of the given weight: mean and variance of both together (T. F. Chan et al., "Updating Formulae and a
// Pairwise Algorithm for Computing Sample Variances", 1979).
func (e *entry) add(o *Observation, weight float64) {
	into := &e.resources[o.Resource]
	added := o.Pods * o.Span.Seconds() * weight
	total := float64(into.PodSeconds) + added
	if total <= 0 {
		return
	}
	mean := o.Sum / o.Pods
	variance := max(o.SumSquares/o.Pods-mean*mean, 0)
	difference, share := mean-float64(into.Mean), added/total
	into.Variance = combined(into.Variance, variance, difference, share)
	into.Within = float32(float64(into.Within)*(1-share) + o.Within/o.Pods*share)
	into.Mean = float32(float64(into.Mean) + difference*share)
	into.PodSeconds = float32(total)
	e.seen = max(e.seen, uint32(o.At.Unix()))
}

// combined is the variance of the union of two sets. The second has the variance added and is the share of the union. difference is
// between the means.
func combined(variance float32, added, difference, share float64) float32 {
	return float32(float64(variance)*(1-share) + added*share + difference*difference*share*(1-share))
}

// forget drops workloads without an observation for three times History. Beyond MaxWorkloads it first evicts workloads that the
// newest observation does not contain. Among equals it evicts those with the least PodTime, then those with the highest rank.
func (s *Statistics) forget(c Config) {
	oldest := uint32(max(s.at.Add(-3*c.History).Unix(), 0))
	maps.DeleteFunc(s.workloads, func(_ uint64, e entry) bool { return e.seen < oldest })
	if len(s.workloads) <= c.MaxWorkloads {
		return
	}
	newest := uint32(max(s.at.Unix(), 0))
	live := func(e entry) int {
		if e.seen >= newest {
			return 1
		}
		return 0
	}
	hashes := slices.SortedFunc(maps.Keys(s.workloads), func(a, b uint64) int {
		x, y := s.workloads[a], s.workloads[b]
		return cmp.Or(cmp.Compare(live(y), live(x)), cmp.Compare(y.podSeconds(), x.podSeconds()), cmp.Compare(x.rank, y.rank))
	})
	// A map does not give back the memory of what is deleted.
	kept := make(map[uint64]entry, c.MaxWorkloads)
	for _, hash := range hashes[:c.MaxWorkloads] {
		kept[hash] = s.workloads[hash]
	}
	s.workloads = kept
}

func (e entry) podSeconds() (most float32) {
	for i := range e.resources {
		most = max(most, e.resources[i].PodSeconds)
	}
	return most
}

// Publisher hands the latest Statistics to all decisions. It is safe for concurrent use; Latest never waits. Use NewPublisher.
type Publisher struct {
	latest atomic.Pointer[Statistics]
}

// NewPublisher returns a publisher of empty Statistics.
func NewPublisher() *Publisher {
	p := &Publisher{}
	p.latest.Store(&Statistics{})
	return p
}

func (p *Publisher) Latest() *Statistics { return p.latest.Load() }

// Publish makes s the Statistics of all decisions that begin from now on.
func (p *Publisher) Publish(s *Statistics) { p.latest.Store(s) }

// Workload names pods with similar usage. Pods of different namespaces never share a workload: tenants must not affect each other.
type Workload struct {
	Namespace string
	// Name is the value of the configured label, or the name of the controlling owner.
	// It omits the hash of a ReplicaSet and the time of a CronJob's Job.
	Name string
}

// WorkloadOf returns the pod's workload by the label, else by its controlling owner.
// It returns false for a pod without either. Static pods have no workload.
func WorkloadOf(pod *corev1.Pod, label string) (Workload, bool) {
	if label != "" {
		if value := pod.Labels[label]; value != "" {
			return Workload{pod.Namespace, value}, true
		}
	}
	return OwnerOf(pod)
}

// OwnerOf is WorkloadOf without a label.
func OwnerOf(pod *corev1.Pod) (Workload, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind == "Node" {
		return Workload{}, false
	}
	name := owner.Name
	switch owner.Kind {
	case "ReplicaSet":
		name = withoutTemplateHash(name, pod.Labels["pod-template-hash"])
	case "Job":
		name = withoutCronTime(name)
	}
	return Workload{pod.Namespace, name}, true
}

// withoutTemplateHash returns the name of a ReplicaSet's Deployment or compatible controller, without dash and hash.
// For a Deployment, the hash is the pod's label pod-template-hash. Other names do not change.
func withoutTemplateHash(replicaSet, hash string) string {
	if base, ok := strings.CutSuffix(replicaSet, hash); ok && hash != "" && len(base) > 1 && base[len(base)-1] == '-' {
		return base[:len(base)-1]
	}
	return withoutSuffix(replicaSet, text.MinPodNameHash, text.MaxPodNameHash, text.PodNameLetters)
}

func withoutCronTime(job string) string {
	return withoutSuffix(job, text.JobTimeDigits, text.JobTimeDigits, "0123456789")
}

func withoutSuffix(name string, shortest, longest int, characters string) string {
	i := strings.LastIndexByte(name, '-')
	suffix := name[i+1:]
	if i <= 0 || len(suffix) < shortest || len(suffix) > longest || strings.Trim(suffix, characters) != "" {
		return name
	}
	return name[:i]
}

const (
	// correlation is about how long a pod's usage stays similar. Observations within that time count little more than one.
	correlation = 30 * time.Minute
	// podGap is the number of intervals for which a pod without observations is remembered.
	podGap = 3
)

// podEntry holds the usage over time of one pod, in float32 to halve its size: there may be many.
type podEntry struct {
	resources [load.ResourceCount]struct{ seconds, mean, variance float32 }
	seen      uint32
}

type podObservation struct {
	uid          types.UID
	resource     load.Resource
	usage, share float64
	sums         *sums
	starts       *starts
}

// add adds a usage observed for some seconds, as entry.add does. It returns what that adds to the sum of squared deviations from
// the pod's mean, per share of the interval.
func (e *podEntry) add(r load.Resource, usage, seconds float64) (deviation float64) {
	into := &e.resources[r]
	total := float64(into.seconds) + seconds
	if total <= 0 {
		return 0
	}
	difference, share := usage-float64(into.mean), seconds/total
	into.variance = combined(into.variance, 0, difference, share)
	into.mean = float32(float64(into.mean) + difference*share)
	into.seconds = float32(total)
	return difference * difference * (1 - share)
}

func (s *Statistics) withPods(t *Tally, at time.Time, interval, history time.Duration) map[uint64]podEntry {
	seen := uint32(max(at.Unix(), 0))
	oldest := uint32(max(at.Add(-podGap*interval).Unix(), 0))
	decay := float32(weightAt(max(at.Sub(s.at), 0), history))
	pods := make(map[uint64]podEntry, len(s.pods))
	for hash, e := range s.pods {
		if e.seen < oldest {
			continue
		}
		for r := range e.resources {
			e.resources[r].seconds *= decay
		}
		pods[hash] = e
	}
	for i := range t.pods {
		o := &t.pods[i]
		if t.discarded[o.resource] || o.usage < 0 || o.usage > maxUsage {
			continue
		}
		hash := s.podHash(o.uid)
		e := pods[hash]
		if o.resource == load.CPU {
			before := float64(e.resources[load.CPU].seconds)
			if before > 0 { // decay is 0 in the first interval
				before /= float64(decay)
			}
			o.starts.observe(o.usage, o.share, before, interval)
		}
		o.sums.within += o.share * e.add(o.resource, o.usage, o.share*interval.Seconds())
		e.seen = seen
		pods[hash] = e
	}
	return pods
}

func (s *Statistics) podHash(uid types.UID) uint64 { return maphash.Comparable(s.seed, uid) }

// narrow changes the moments of a workload to those of one of its pods, by the pod's own usage. It does not allocate.
//
// The workload weighs as much as the pod's usage over a time: correlation · Within / (Variance − Within), at most correlation.
// The less its pods are alike, the less it weighs. Source: credibility by H. Bühlmann, "Experience Rating and
// Credibility", 1967.
//
// It returns the peak of the pod's own usage: its 95th percentile, 0 if unobserved.
func (s *Statistics) narrow(moments *[load.ResourceCount]Moments, uid types.UID) (own podusage.Amounts) {
	e, ok := s.pods[s.podHash(uid)]
	if !ok {
		return own
	}
	for r := range moments {
		m, pod := &moments[r], &e.resources[r]
		if pod.seconds <= 0 {
			continue
		}
		own[r] = float64(pod.mean) + deviationsToP95*math.Sqrt(float64(pod.variance))
		prior := correlation.Seconds()
		if between := m.Variance - m.Within; between > m.Within {
			prior *= m.Within / between
		}
		share := prior / (prior + float64(pod.seconds))
		m.Mean = m.Mean*share + float64(pod.mean)*(1-share)
		m.Variance = m.Variance*share + float64(pod.variance)*(1-share)
	}
	return own
}
