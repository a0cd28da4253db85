// Package command shows which pods a rebalancer would move off hot nodes of a cluster now. It moves none.
package command

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Request says what is planned in which cluster.
type Request struct {
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
	// Rebalancer is the file of a RebalancerConfiguration; empty for the defaults.
	Rebalancer string
	// Found is called with the configuration. It must not be nil.
	Found func(*cluster.Configuration)
}

// Report is a plan of moves.
type Report struct {
	Configuration string `json:"configuration"`
	// Plugin is the plugin whose load tells which nodes are hot, of Profile.
	Profile string `json:"profile"`
	Plugin  string `json:"plugin"`
	// Stopped says why nothing may move; empty if moves are possible.
	Stopped string `json:"stopped,omitempty"`
	// WaitReason and Wait say why a rebalancer would not make these moves now; empty if it would.
	WaitReason plan.Stop `json:"waitReason,omitempty"`
	Wait       string    `json:"wait,omitempty"`
	// Nodes are the hot nodes, hottest first, then the destinations. A node has a row for each resource of its moves.
	Nodes []NodeChange `json:"nodes"`
	Moves []Move       `json:"moves"`
	// Stay counts the other pods of hot nodes, most frequent reason first.
	Stay []Stay `json:"stay"`
	// Deferred are hot nodes beyond the limits of moves.
	Deferred []string `json:"deferred,omitempty"`
	// Resting are hot nodes whose last move the load does not show yet.
	Resting   []string `json:"resting,omitempty"`
	Simulated int      `json:"simulatedDecisions"`
	Notes     []string `json:"notes,omitempty"`
}

// NodeChange is a resource of a node, before and after the moves that are made because of that resource.
type NodeChange struct {
	Name     string `json:"name"`
	Hot      bool   `json:"hot"`
	Resource string `json:"resource"`
	// Line, Before and After are in percent of capacity.
	Line   float64 `json:"linePercent"`
	Before float64 `json:"beforePercent"`
	After  float64 `json:"afterPercent"`
}

// Move is a move off a hot node.
type Move struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Owner     string `json:"owner"`
	From      string `json:"from"`
	To        string `json:"to"`
	// Or are nodes that score as To does.
	Or []string `json:"or,omitempty"`
	// Relief is what the source loses, in percent of its capacity.
	Relief     float64 `json:"reliefPercent"`
	Disruption float64 `json:"disruption"`
}

// Stay is the number of pods that stay for a reason.
type Stay struct {
	Reason plan.Reason `json:"reason"`
	// Message is the reason in words.
	Message string `json:"message"`
	Pods    int    `json:"pods"`
}

// ReadConfiguration reads the RebalancerConfiguration of the flag. Without a file it returns the defaults.
func ReadConfiguration(file string) (*api.Configuration, error) {
	if file == "" {
		return api.Default(), nil
	}
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, cluster.OptionErrorf("--rebalancer-config: %w", err)
	}
	c, err := plan.DecodeConfiguration(content)
	if err != nil {
		return nil, cluster.OptionErrorf("--rebalancer-config: %s: %w", file, err)
	}
	return c, nil
}

// Run plans moves in the cluster. It reads the load once, so one refresh makes a node hot. The state of an installed rebalancer
// tells why moves wait.
func Run(ctx context.Context, c *cluster.Connection, r Request) (*Report, error) {
	configuration, err := ReadConfiguration(r.Rebalancer)
	if err != nil {
		return nil, err
	}
	configuration.Refreshes = 1
	own, err := c.ValidConfiguration(ctx, r.Configuration)
	if err != nil {
		return nil, err
	}
	r.Found(own)
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	opened, err := c.Open(ctx, cluster.Options{
		Configuration: own.Decoded, Workload: own.Workload, Objects: objects.All, Source: r.Source, IgnoreExtenders: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", own.Origin, err)
	}
	report := &Report{Configuration: own.Origin, Nodes: []NodeChange{}, Moves: []Move{}, Stay: []Stay{}}
	for i := range objects.Missing {
		report.Notes = append(report.Notes, objects.Missing[i].Note())
	}
	cluster := plan.Cluster{
		Scheduler: opened.Scheduler, SchedulerNames: own.ProfileNames(), Extenders: own.Decoded.Extenders, Now: time.Now(),
	}
	if report.Profile, cluster.Load = opened.FirstLoadReader(own.ProfileNames()); cluster.Load == nil {
		return nil, fmt.Errorf("%s: no profile has a plugin that reads load; add one as in docs/configure.md", own.Origin)
	}
	report.Plugin = cluster.Load.Name()
	setUnplaced(&cluster, objects.All)
	var notes []string
	cluster.Usage, notes = usage(ctx, opened, report.Profile)
	report.Notes = append(report.Notes, notes...)
	store := &kube.Store{Client: c.Client}
	executor := &plan.Executor{World: snapshot{cluster}, Store: store, Clock: clock.RealClock{}, Config: configuration}
	if held, err := kube.FindState(ctx, c.Client); err != nil {
		report.Notes = append(report.Notes,
			fmt.Sprintf("Cannot look for an installed rebalancer, so its state does not count: %v", text.ExcerptError(err)))
	} else if held != nil {
		store.Namespace, store.Name = held.Namespace, held.Name
	}
	status, err := executor.Preview(ctx)
	if err != nil {
		return nil, err
	}
	report.WaitReason, report.Wait = status.Stop, status.Why
	report.add(status)
	return report, nil
}

// snapshot is a cluster at one moment.
type snapshot struct{ cluster plan.Cluster }

var _ plan.World = snapshot{}

func (s snapshot) Cluster(context.Context) (plan.Cluster, error) { return s.cluster, nil }

func (s snapshot) Pods(namespace string) ([]*corev1.Pod, error) {
	return s.cluster.Scheduler.Informers().Core().V1().Pods().Lister().Pods(namespace).List(labels.Everything())
}

// SchedulerDown leaves it to doctor to tell of a scheduler that is down.
func (snapshot) SchedulerDown(context.Context) (string, error) { return "", nil }

// usage returns the measured usage of pods, from the source of the profile, and what could not be read. Without a source that
// works, it is nil.
func usage(
	ctx context.Context, c *cluster.Cluster, profile string,
) (of func(*corev1.Pod) (podusage.Amounts, bool), notes []string) {
	notes = c.Problems()
	read := c.PodUsageReader([]string{profile})
	if read == nil {
		return nil, notes
	}
	usages, err := read(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, append(notes, fmt.Sprintf("Cannot read the usage of pods, so it is estimated: %v", text.ExcerptError(err)))
	}
	return func(pod *corev1.Pod) (a podusage.Amounts, ok bool) {
		for of := range load.ResourceCount {
			u, known := usages[sim.PodResource{Namespace: pod.Namespace, Pod: pod.Name, Resource: of}]
			if !known || pod.Status.StartTime == nil {
				return a, false
			}
			a[of] = u.Usage
		}
		return a, true
	}, notes
}

func (r *Report) add(status *plan.Status) {
	p := status.Plan
	r.Stopped, r.Deferred, r.Resting, r.Simulated = p.Stopped, p.Deferred, p.Resting, p.Simulated
	if p.Stopped == "" {
		for _, why := range p.Unclear[:min(len(p.Unclear), plan.MaxUnclear)] {
			r.Notes = append(r.Notes, "No moves off some nodes: "+why)
		}
	}
	if p.Problem != "" {
		r.Notes = append(r.Notes, "A simulated decision failed: "+text.Excerpt(p.Problem))
	}
	r.addMoves(p)
	words := reasons()
	for _, reason := range p.Reasons() {
		r.Stay = append(r.Stay, Stay{reason, words[reason], p.Stay[reason]})
	}
}

// addMoves adds the nodes and moves of the plan.
func (r *Report) addMoves(p *plan.Plan) {
	type row struct {
		node string
		of   load.Resource
	}
	rows := map[row]int{}
	percent := func(fraction float64) float64 { return math.Round(1000*fraction) / 10 }
	// add adds the row if it is new, and returns it.
	add := func(n *plan.LoadedNode, of load.Resource, hot bool, before float64) *NodeChange {
		if _, ok := rows[row{n.Name, of}]; !ok {
			rows[row{n.Name, of}] = len(r.Nodes)
			r.Nodes = append(r.Nodes, NodeChange{n.Name, hot, of.String(), percent(n.Line[of]), percent(before), percent(before)})
		}
		return &r.Nodes[rows[row{n.Name, of}]]
	}
	byName := make(map[string]*plan.LoadedNode, len(p.Nodes))
	for i := range p.Nodes {
		byName[p.Nodes[i].Name] = &p.Nodes[i]
	}
	for _, name := range p.Hot {
		of, _ := byName[name].Excess()
		add(byName[name], of, true, byName[name].Measured[of])
	}
	for i := range p.Moves {
		m := &p.Moves[i]
		r.Moves = append(r.Moves, Move{
			Namespace: m.Namespace, Pod: m.Pod, Owner: text.Excerpt(m.Owner.String()), From: m.From, To: m.To, Or: m.Or,
			Relief: percent(m.FromBefore - m.FromAfter), Disruption: m.Disruption,
		})
		add(byName[m.From], m.Resource, true, m.FromBefore).After = percent(m.FromAfter)
		to := byName[m.To]
		// Not the node's utilization: ToAfter also has what pods of earlier moves use beyond their expected usage.
		add(to, m.Resource, false, m.ToAfter-to.Share(m.Resource, m.Usage)).After = percent(m.ToAfter)
	}
}
