package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentversion "k8s.io/component-base/version"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
)

// facts are what was read of a cluster. Beside a fact that may be missing is the error that says why.
type facts struct {
	options Options
	chosen  live.Chosen
	now     time.Time
	server  live.Server
	// commandVersion is the Kubernetes version that this program is compiled with.
	commandVersion string
	// inPod reports whether the program runs in a pod of the scheduler.
	inPod bool

	configuration    *live.Configuration
	configurationErr error
	nodes            []*corev1.Node
	pods             []*corev1.Pod
	services         []*corev1.Service
	objectsErr       error
	// missing are the kinds that the user cannot list.
	missing []live.MissingKind
	user    string
	// powerModelFile is the file of this machine that NODE_POWER_MODEL names.
	powerModelFile string

	// sources are those of load. If clusterErr is set, there is one without a reader.
	sources    []*sourceFacts
	statistics []live.Statistics
	lines      []linesFacts
	// linesOf are the load lines that hold for a reader's nodes, by name.
	linesOf    map[*reading.Reader]map[string]explain.LoadLine
	clusterErr error

	permissions permissionFacts
	// otherSchedulers are the configurations of other schedulers. unreadSchedulers are other schedulers without one that can be read.
	otherSchedulers  []*live.Configuration
	unreadSchedulers []live.Unread
	lease            *coordinationv1.Lease
	leaseErr         error
	// metrics are those of the scheduler. Both they and metricsErr are nil if no scheduler is known. metricsFrom says where they were
	// read. metricsPod is empty if they are of all pods.
	metrics                 model.Vector
	metricsPod, metricsFrom string
	metricsErr              error

	rebalancer rebalancerFacts
}

// sourceFacts are what was read of one source of load.
type sourceFacts struct {
	*facts
	live.Source
	// token is what the token file holds; empty if there is none.
	token string
	// windows are those over which load is read, sorted. usesDeviation reports whether a plugin uses standard deviations.
	windows       []time.Duration
	usesDeviation bool
	figures       []figure
	// diagnosis and examination are those of a Prometheus.
	diagnosis      *diagnosis.Diagnosis
	examination    *diagnosis.Examination
	examinationErr error
}

// linesFacts are the load lines, or the rules on node metrics, of one plugin of a profile.
type linesFacts struct {
	profile, plugin string
	// class is the argument with the line of a class of pods; empty for pods of no class.
	class string
	// rules reports whether the plugin rejects nodes by rules. Else it has load lines.
	rules bool
	// waives reports whether pods are placed above the lines where no node is below.
	waives bool
	// limits reports whether a line or rule holds for any node.
	limits bool
	// nodes counts the nodes that take pods without tolerations. above names the ones that are above a line, or rejected otherwise.
	nodes int
	above []string
	// unmeasured are the nodes of above that are rejected because their load is not known.
	unmeasured []string
	// invalid are nodes with an annotation that is not used; problem is of the first.
	invalid []string
	problem string
}

// figure is one value that a plugin reads of a node.
type figure struct {
	reading.Figure
	node   string
	maxAge time.Duration
	// metric tells a node metric from load.
	metric bool
	// deviation is that of a mean; windowed reports whether it was measured over a window.
	deviation float64
	windowed  bool
}

func (f *facts) needFile() *gap {
	return gapIf(f.configuration == nil, "no configuration was found", "configuration")
}

func (f *facts) needConfiguration() *gap {
	invalid := f.configuration != nil && f.configuration.Decoded == nil
	return cmp.Or(f.needFile(), gapIf(invalid, "the configuration is invalid", "configuration"))
}

func (f *facts) needObjects() *gap {
	return gapIf(f.objectsErr != nil, "nodes and pods cannot be listed", "permissions")
}

// needCluster needs the configuration with the objects in a simulation, which reads the sources.
func (f *facts) needCluster() *gap {
	return cmp.Or(f.needConfiguration(), f.needObjects(),
		gapIf(f.clusterErr != nil, "the scheduler does not start with the configuration", "configuration"))
}

// needLines needs load lines, or rules.
func (f *facts) needLines() *gap { return gapIf(len(f.lines) == 0, "", "") }

// needAnswers needs an answer of all sources that were asked: without, nodes are compared with nothing.
func (f *facts) needAnswers() *gap {
	for _, s := range f.sources {
		if missing := s.needAnswer(); missing != nil && s.needCluster() == nil {
			return missing
		}
	}
	return nil
}

// needMetrics needs the scheduler's metrics, unless none is known.
func (f *facts) needMetrics() *gap {
	return gapIf(f.metricsErr != nil, "the scheduler's metrics could not be read", "scheduler")
}

// needCluster needs nodes, too, or a failure: without nodes, most sources are not asked.
func (s *sourceFacts) needCluster() *gap {
	unasked := len(s.nodes) == 0 && (s.Err == nil || errors.Is(s.Err, source.ErrNoNodes))
	return cmp.Or(s.facts.needCluster(), gapIf(unasked, "the cluster has no nodes", "nodes"))
}

// needAnswer needs a source that answered, though maybe without load of any node.
func (s *sourceFacts) needAnswer() *gap {
	answered := s.Err == nil || s.diagnosis != nil && (len(s.diagnosis.Tried) > 0 ||
		slices.ContainsFunc(s.diagnosis.Queries, func(q diagnosis.QueryDiagnosis) bool { return !isFailure(q.Err) }))
	return gapIf(!answered, s.Label+" could not be read", "source")
}

func (s *sourceFacts) needLoad() *gap {
	return gapIf(s.Err != nil, s.Label+" has no load of any node", "source")
}

func (s *sourceFacts) needExamination() *gap {
	return gapIf(s.examinationErr != nil, "the series of "+s.Label+" could not be examined", "source")
}

func (s *sourceFacts) needPrometheus() *gap { return gapIf(s.diagnosis == nil, "", "") }

// needLoadPlugin needs a plugin that reads more than node metrics.
func (s *sourceFacts) needLoadPlugin() *gap { return gapIf(len(s.windows) == 0, "", "") }

// workload returns the scheduler that runs with the configuration; nil if only its command line is known, or nothing.
func (f *facts) workload() *live.Workload {
	if f.configuration == nil || f.configuration.Workload == nil || f.configuration.Workload.Name == "" {
		return nil
	}
	return f.configuration.Workload
}

// gatherer reads facts. It does all I/O of the package.
type gatherer struct {
	*facts
	conn *live.Connection
}

func gather(ctx context.Context, conn *live.Connection, o Options) (*facts, error) {
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	f := &facts{options: o, chosen: conn.Chosen, now: time.Now(), commandVersion: componentversion.Get().GitVersion}
	g := &gatherer{facts: f, conn: conn}
	var err error
	if f.server, err = conn.Server(ctx); err != nil {
		return nil, err
	}
	f.configuration, f.configurationErr = conn.Configuration(ctx, o.Configuration)
	if is[*live.OptionError](f.configurationErr) {
		return nil, f.configurationErr
	}
	f.inPod = conn.IsIn(f.workload())
	var objects []runtime.Object
	if all, err := conn.Objects(ctx); err != nil {
		f.objectsErr = err
	} else {
		objects, f.missing = all.All, all.Missing
		f.rebalancer.budgets = listOf[*policyv1.PodDisruptionBudget](objects)
		f.nodes, f.pods, f.services = listOf[*corev1.Node](objects), listOf[*corev1.Pod](objects), listOf[*corev1.Service](objects)
	}
	if len(f.missing) > 0 {
		f.user = conn.User(ctx)
	}
	if f.needCluster() == nil {
		if err := g.readSources(ctx, objects); err != nil {
			return nil, err
		}
	}
	if f.needConfiguration() == nil {
		g.readPermissions(ctx)
		f.otherSchedulers, f.unreadSchedulers = conn.OtherSchedulers(ctx, f.configuration, f.pods)
		if election := f.election(); f.workload() != nil && election.LeaderElect {
			leases := conn.Client.CoordinationV1().Leases(election.ResourceNamespace)
			f.lease, f.leaseErr = leases.Get(ctx, election.ResourceName, metav1.GetOptions{})
		}
	}
	if f.needCluster() != nil {
		f.sources = []*sourceFacts{{facts: f}}
	}
	g.readMetrics(ctx)
	g.readRebalancers(ctx)
	g.readRebalancerPermissions(ctx)
	return f, ctx.Err()
}

// listOf returns the objects of one type.
func listOf[T runtime.Object](objects []runtime.Object) (all []T) {
	for _, object := range objects {
		if object, ok := object.(T); ok {
			all = append(all, object)
		}
	}
	return all
}

// readSources reads the sources of load. It fails if the options do not fit the configuration.
func (g *gatherer) readSources(ctx context.Context, objects []runtime.Object) error {
	cluster, err := g.conn.Open(ctx, live.Options{
		Configuration: g.withPowerModels(), Objects: objects, Source: g.options.Source, IgnoreExtenders: true,
	})
	if is[*live.OptionError](err) {
		return err
	}
	if g.clusterErr = err; err != nil {
		return nil
	}
	g.statistics = cluster.Statistics()
	if err := g.readLines(ctx, cluster); err != nil {
		return err
	}
	for _, source := range cluster.Sources() {
		s := &sourceFacts{facts: g.facts, Source: source, token: string(source.Spec.MetricProvider.Token)}
		if file := cmp.Or(g.options.Source.TokenFile, source.Spec.MetricProvider.TokenFile); file != "" {
			content, _ := os.ReadFile(file) // without it nothing is said of the token
			s.token = string(content)
		}
		s.addReaders()
		if p, ok := source.Source.(*prometheus.Source); ok {
			s.examine(ctx, p)
		}
		g.sources = append(g.sources, s)
	}
	return nil
}

// readLines compares the nodes with the load lines and the rules of each plugin.
func (g *gatherer) readLines(ctx context.Context, cluster *live.Cluster) error {
	nodes, err := cluster.NodeInfos(ctx)
	if err != nil {
		return err
	}
	g.linesOf = map[*reading.Reader]map[string]explain.LoadLine{}
	cycle := framework.NewCycleState()
	for i := range g.configuration.Decoded.Profiles {
		profile := &g.configuration.Decoded.Profiles[i]
		for _, plugin := range cluster.Explainers(profile.SchedulerName) {
			limits := plugins.Find(plugin.Name()).Limits(configlint.ArgsOf(profile, plugin.Name()))
			if !limits.Filters {
				continue // its line is one to fill nodes up to
			}
			l := linesFacts{profile: profile.SchedulerName, plugin: plugin.Name(), waives: limits.Waives}
			found := []linesFacts{l}
			if reader, ok := plugin.(explain.LoadReader); ok {
				of := map[string]explain.LoadLine{}
				for _, node := range nodes {
					of[node.Node().Name] = reader.LoadLine(cycle, node)
				}
				g.linesOf[reader.Reader()] = of
				found = l.compare(nodes, of)
			} else {
				found[0].rules = true
				for _, node := range nodes {
					found[0].addRules(node.Node(), plugin.Explain(ctx, cycle, estimate.Stranger(), node))
				}
			}
			for _, l := range found {
				l.limits = l.limits && configlint.Filters(profile, plugin.Name()) // else no pod is kept from a node
				g.lines = append(g.lines, l)
			}
		}
	}
	return nil
}

// compare compares the nodes with the line of pods of no class, and then with that of each class.
func (l linesFacts) compare(nodes []fwk.NodeInfo, lines map[string]explain.LoadLine) []linesFacts {
	found := []linesFacts{l}
	for _, node := range nodes {
		line := lines[node.Node().Name]
		found[0].addLine(node.Node(), line)
		found[0].addAnnotation(node.Node(), line)
		for class := range line.Classes {
			if len(found) == class+1 {
				l.class = explain.LineOf(class)
				found = append(found, l)
			}
			found[class+1].addLine(node.Node(), line.OfClass(class))
		}
	}
	return found
}

func (l *linesFacts) addAnnotation(node *corev1.Node, line explain.LoadLine) {
	if line.AnnotationProblem != "" {
		l.problem = cmp.Or(l.problem, line.AnnotationProblem)
		l.invalid = append(l.invalid, node.Name)
	}
}

// addRules adds a node with the rules that hold for it.
func (l *linesFacts) addRules(node *corev1.Node, terms explain.Terms) {
	var limits []explain.Limit
	if limiter, ok := terms.(explain.Limiter); ok {
		limits = limiter.Limits()
	}
	l.add(node, len(limits) > 0, slices.ContainsFunc(limits, func(limit explain.Limit) bool { return limit.Exceeded }), false)
}

// addLine adds a node with its load line. The plugin decides about nodes without load, too.
func (l *linesFacts) addLine(node *corev1.Node, line explain.LoadLine) {
	limited, above, measured := false, false, false
	for r, percent := range line.Percent {
		limited, above = limited || percent > 0, above || line.Above[r]
		measured = measured || line.Above[r] && line.Node[r].State == load.Fresh
	}
	l.add(node, limited, above, above && !measured)
}

// add adds a node, limited by a line or rule or not.
func (l *linesFacts) add(node *corev1.Node, limited, above, unmeasured bool) {
	repels := func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, repels) {
		return
	}
	l.nodes++
	l.limits = l.limits || limited
	if above {
		l.above = append(l.above, node.Name)
	}
	if unmeasured {
		l.unmeasured = append(l.unmeasured, node.Name)
	}
}

// examine asks a Prometheus what a refresh does not ask.
func (s *sourceFacts) examine(ctx context.Context, p *prometheus.Source) {
	d := p.Diagnosis()
	if s.diagnosis = &d; s.needAnswer() != nil {
		return
	}
	examination, err := p.Examine(ctx, s.windows)
	if s.examination = &examination; !errors.Is(err, context.Canceled) {
		s.examinationErr = err
	}
}

// addReaders adds what the plugins read of the source, whatever the statistic. Equal readers have the same figures.
func (s *sourceFacts) addReaders() {
	cycle := framework.NewCycleState()
	seen := map[string]bool{}
	for _, reader := range s.Readers {
		request := reader.Request()
		s.usesDeviation = s.usesDeviation || request.UsesDeviation
		if len(request.Metrics) == 0 {
			s.windows = append(s.windows, request.Windows[:]...)
		}
		maxAge := request.Trust().MaxAge
		key := fmt.Sprint(request.Windows, request.Ignores, request.Fraction, request.Metrics, maxAge)
		if seen[key] {
			continue
		}
		seen[key] = true
		for _, node := range s.nodes {
			for i, read := range reader.Figures(cycle, node.Name) {
				annotated := s.linesOf[reader][node.Name].Annotated
				if len(request.Metrics) == 0 && request.Ignores[i] && !annotated[i] {
					continue
				}
				f := figure{Figure: read, node: node.Name, maxAge: maxAge, metric: len(request.Metrics) > 0}
				if !f.metric && f.Fraction == 0 {
					m := reader.Snapshots().ForCycle(cycle).Over(f.Window).Node(node.Name)[i]
					f.deviation, f.windowed = m.StdDev, m.Window > 0
				}
				s.figures = append(s.figures, f)
			}
		}
	}
	slices.Sort(s.windows)
	s.windows = slices.Compact(s.windows)
}
