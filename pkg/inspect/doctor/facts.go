package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	componentversion "k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
)

// Facts are all that the checks read. A fact that may be missing has an error beside it.
type Facts struct {
	options Options
	chosen  cluster.Chosen
	now     time.Time
	server  cluster.Server
	// commandVersion is the Kubernetes version of this program.
	commandVersion string
	// inPod reports whether the program runs in a pod of the scheduler.
	inPod bool

	// Configuration is that of the scheduler; nil if none was found.
	Configuration    *cluster.Configuration
	configurationErr error
	// Objects are those of the cluster that the scheduler reads.
	Objects    []runtime.Object
	nodes      []*corev1.Node
	Pods       []*corev1.Pod
	objectsErr error
	// groups are the pod groups of the pods; nil if the API server has none.
	groups cluster.PodGroups
	// labeled are the namespaces whose label names a scheduler that none of their pods has. policies select the namespaces whose label
	// an admission policy reads.
	labeled     []*corev1.Namespace
	policies    []labels.Selector
	policiesErr error
	// Named has the objects that configurations name.
	Named configlint.Cluster
	// missing are the kinds that the user cannot list.
	missing []cluster.MissingKind
	user    string

	// sources are the sources of load. If NeedCluster fails, there is one empty source, so that its checks say why.
	sources    []*sourceFacts
	statistics []provider.StatisticsStatus
	lines      []linesFacts
	// linesOf has the load lines of each reader, by node name.
	linesOf    map[*reading.Reader]map[string]explain.LoadLine
	clusterErr error

	permissions permissionFacts
	lease       *coordinationv1.Lease
	leaseErr    error
	// metrics are the scheduler's. If no scheduler is known, metrics and metricsErr are nil. metricsFrom says where they were read.
	metrics     model.Vector
	metricsFrom string
	metricsErr  error

	// supplied are the checks of other packages.
	supplied []Check[*Facts]
}

// sourceFacts are the facts of one source of load.
type sourceFacts struct {
	*Facts
	cluster.Source
	// windows are the windows of the load that plugins read, and histories those of the usage of workloads, sorted.
	windows, histories []time.Duration
	// coverage is the fraction of a long window, or history, of which the server has load.
	coverage    map[time.Duration]float64
	coverageErr error
	figures     []figure
	// diagnosis, examiner and examination are nil unless the source is a Prometheus.
	diagnosis      *diagnosis.Diagnosis
	examiner       func(ctx context.Context, windows []time.Duration) (diagnosis.Examination, error)
	examination    *diagnosis.Examination
	examinationErr error
}

// linesFacts are the load lines, or the rules on node metrics, of one plugin of a profile.
type linesFacts struct {
	profile, plugin string
	// rules is true for rules on node metrics, and false for load lines.
	rules bool
	// waives reports whether a pod that would find no node is placed anyway.
	waives bool
	// limits reports whether a node has a line or rule.
	limits bool
	// nodes counts the nodes that accept pods without tolerations. above names the nodes above a line, or rejected by a rule.
	nodes int
	above []string
	// unmeasured reports whether a node of above is rejected for lack of load.
	unmeasured bool
	// invalid names the nodes whose annotation is invalid. problem says what is wrong with the first.
	invalid             []string
	annotation, problem string
}

// figure is one value that a plugin reads of a node.
type figure struct {
	reading.Figure
	node   string
	maxAge time.Duration
	// metric is true for a node metric, and false for load.
	metric bool
}

func (f *Facts) needFile() *gap {
	return gapIf(f.Configuration == nil, "no configuration was found", "configuration")
}

// NeedConfiguration returns why there is no valid configuration, or nil.
func (f *Facts) NeedConfiguration() *gap {
	invalid := f.Configuration != nil && f.Configuration.Decoded == nil
	return cmp.Or(f.needFile(), gapIf(invalid, "the configuration is invalid", "configuration"))
}

func (f *Facts) needObjects() *gap {
	return gapIf(f.objectsErr != nil, "nodes and pods cannot be listed", "permissions")
}

// NeedCluster needs a simulation of the cluster, which reads the sources.
func (f *Facts) NeedCluster() *gap {
	return cmp.Or(f.NeedConfiguration(), f.needObjects(),
		gapIf(f.clusterErr != nil, "the scheduler does not start with the configuration", "configuration"))
}

func (f *Facts) needLines() *gap { return gapIf(len(f.lines) == 0, "", "") }

// needAnswers needs an answer of all sources that were asked, or the scheduler's own load. Without load, nodes cannot be compared
// with their lines.
func (f *Facts) needAnswers() *gap {
	for _, s := range f.sources {
		if missing := s.needAnswer(); missing != nil && !s.Adopted && s.NeedCluster() == nil {
			return missing
		}
	}
	return nil
}

// needMetrics accepts missing metrics where no scheduler is known.
func (f *Facts) needMetrics() *gap {
	return gapIf(f.metricsErr != nil, "the scheduler's metrics could not be read", "scheduler.metrics")
}

// NeedCluster also needs nodes: without nodes, most sources are not asked. A failure shows that this one was.
func (s *sourceFacts) NeedCluster() *gap {
	unasked := len(s.nodes) == 0 && (s.Err == nil || errors.Is(s.Err, source.ErrNoNodes))
	return cmp.Or(s.Facts.NeedCluster(), gapIf(unasked, "the cluster has no nodes", "nodes.found"))
}

// needAnswer needs an answer, even one without load of any node. Its checks do not apply to a server that only the scheduler
// reaches.
func (s *sourceFacts) needAnswer() *gap {
	answered := s.Err == nil || s.diagnosis != nil && (len(s.diagnosis.Tried) > 0 ||
		slices.ContainsFunc(s.diagnosis.Queries, func(q diagnosis.QueryDiagnosis) bool { return !isFailure(q.Err) }))
	if !answered && s.Adopted && errors.Is(s.Err, cluster.ErrNotHere) {
		return &gap{}
	}
	return gapIf(!answered, s.Label+" could not be read", "source.answers")
}

func (s *sourceFacts) needLoad() *gap {
	return gapIf(s.Err != nil, s.Label+" has no load of any node", "source.answers")
}

func (s *sourceFacts) needExamination() *gap {
	return gapIf(s.examinationErr != nil, "the series of "+s.Label+" could not be examined", "source.examined")
}

func (s *sourceFacts) needPrometheus() *gap { return gapIf(s.diagnosis == nil, "", "") }

// needLoadPlugin needs a plugin that reads load, beside node metrics.
func (s *sourceFacts) needLoadPlugin() *gap { return gapIf(len(s.windows) == 0, "", "") }

// ReadsLoad reports whether a profile has a plugin that reads load. Use it where NeedCluster holds.
func (f *Facts) ReadsLoad() bool { return len(f.sources) > 0 }

// Workload returns the scheduler that runs with the configuration; nil if none is known.
func (f *Facts) Workload() *cluster.Workload {
	if f.Configuration == nil {
		return nil
	}
	return f.Configuration.Workload
}

// gatherer reads facts. It does all I/O of the package.
type gatherer struct {
	*Facts
	conn *cluster.Connection
}

func gather(ctx context.Context, conn *cluster.Connection, o Options) (*Facts, error) {
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	f := &Facts{options: o, chosen: conn.Chosen, now: time.Now(), commandVersion: componentversion.Get().GitVersion}
	g := &gatherer{Facts: f, conn: conn}
	var err error
	if f.server, err = conn.Server(ctx); err != nil {
		return nil, err
	}
	f.Configuration, f.configurationErr = conn.Configuration(ctx, o.Configuration)
	if is[*cluster.OptionError](f.configurationErr) {
		return nil, f.configurationErr
	}
	f.inPod = conn.IsIn(f.Workload())
	if all, err := conn.Objects(ctx); err != nil {
		f.objectsErr = err
	} else {
		f.Objects = all.All
		f.nodes, f.Pods = ListOf[*corev1.Node](f.Objects), ListOf[*corev1.Pod](f.Objects)
		f.groups = conn.PodGroups(ctx, nil, all, f.Pods)
		f.missing = all.Missing
	}
	if len(f.missing) > 0 {
		f.user = conn.User(ctx)
	}
	if f.NeedConfiguration() == nil && f.needObjects() == nil {
		g.addFindings()
		g.readLabels(ctx)
	}
	if f.NeedCluster() == nil {
		if err := g.readSources(ctx); err != nil {
			return nil, err
		}
	}
	if f.NeedConfiguration() == nil {
		g.readPermissions(ctx)
		if election := f.Election(); f.Workload() != nil && election.LeaderElect {
			leases := conn.Client.CoordinationV1().Leases(election.ResourceNamespace)
			f.lease, f.leaseErr = leases.Get(ctx, election.ResourceName, metav1.GetOptions{})
		}
	}
	if f.NeedCluster() != nil {
		f.sources = []*sourceFacts{{Facts: f}}
	}
	g.readMetrics(ctx)
	for _, s := range o.Suppliers {
		f.supplied = append(f.supplied, s.Read(ctx, conn, f)...)
	}
	return f, ctx.Err()
}

// ListOf returns the objects of one type.
func ListOf[T runtime.Object](objects []runtime.Object) (all []T) {
	for _, object := range objects {
		if object, ok := object.(T); ok {
			all = append(all, object)
		}
	}
	return all
}

// readSources reads the sources of load. It fails if the options do not fit the configuration.
func (g *gatherer) readSources(ctx context.Context) error {
	simulated, lent := g.withPowerModels(), false
	read := func(c *cluster.Cluster) error { return g.readCluster(ctx, c) }
	var err error
	if g.options.Lend != nil {
		lent, err = g.options.Lend(ctx, &cluster.Configuration{Decoded: simulated}, read)
	}
	if !lent && err == nil {
		var c *cluster.Cluster
		c, g.clusterErr = g.conn.Open(ctx, cluster.Options{
			Configuration: simulated, Workload: g.Workload(), Objects: g.Objects, Source: g.options.Source, IgnoreExtenders: true,
		})
		if is[*cluster.OptionError](g.clusterErr) {
			return g.clusterErr
		}
		if g.clusterErr == nil {
			err = read(c)
		}
	}
	for _, s := range g.sources { // after the loan
		s.examine(ctx)
	}
	return err
}

// readCluster reads what the plugins of a simulation read.
func (g *gatherer) readCluster(ctx context.Context, c *cluster.Cluster) error {
	c.Examine(ctx)
	g.statistics = c.Statistics()
	if err := g.readLines(ctx, c); err != nil {
		return err
	}
	for _, source := range c.Sources() {
		s := &sourceFacts{Facts: g.Facts, Source: source}
		s.addReaders()
		if p, ok := source.Source.(*prometheus.Source); ok {
			d := p.Diagnosis()
			s.diagnosis, s.examiner = &d, p.Examiner()
		}
		g.sources = append(g.sources, s)
	}
	return nil
}

// readLines compares the nodes with the load lines and the rules of each plugin.
func (g *gatherer) readLines(ctx context.Context, c *cluster.Cluster) error {
	nodes, err := c.NodeInfos(ctx)
	if err != nil {
		return err
	}
	g.linesOf = map[*reading.Reader]map[string]explain.LoadLine{}
	cycle := framework.NewCycleState()
	for i := range g.Configuration.Decoded.Profiles {
		profile := &g.Configuration.Decoded.Profiles[i]
		for _, plugin := range c.Explainers(profile.SchedulerName) {
			limits := plugins.Find(plugin.Name()).Limits(configlint.ArgsOf(profile, plugin.Name()))
			if !limits.Filters {
				continue // the line is a target to fill nodes up to
			}
			l := linesFacts{profile: profile.SchedulerName, plugin: plugin.Name(), waives: limits.Waives}
			if reader, ok := plugin.(explain.LoadReader); ok {
				lines := map[string]explain.LoadLine{}
				for _, node := range nodes {
					lines[node.Node().Name] = reader.LoadLine(cycle, node)
					l.addLine(node.Node(), lines[node.Node().Name])
				}
				g.linesOf[reader.Reader()] = lines
			} else {
				l.rules = true
				for _, node := range nodes {
					l.addRules(node.Node(), plugin.Explain(ctx, cycle, estimate.Stranger(), node))
				}
			}
			l.limits = l.limits && configlint.Filters(profile, plugin.Name()) // else the plugin rejects no node
			g.lines = append(g.lines, l)
		}
	}
	return nil
}

func (l *linesFacts) addRules(node *corev1.Node, terms explain.Terms) {
	var limits []explain.Limit
	if limiter, ok := terms.(explain.Limiter); ok {
		limits = limiter.Limits()
	}
	l.add(node, len(limits) > 0, slices.ContainsFunc(limits, func(limit explain.Limit) bool { return limit.Exceeded }), false)
}

// addLine adds a node with its load line. A node without load is above it if the plugin rejects such nodes.
func (l *linesFacts) addLine(node *corev1.Node, line explain.LoadLine) {
	if line.AnnotationProblem != "" {
		l.annotation, l.problem = line.Annotation, cmp.Or(l.problem, line.AnnotationProblem)
		l.invalid = append(l.invalid, node.Name)
	}
	limited, above, measured := false, false, false
	for r, percent := range line.Percent {
		limited, above = limited || percent > 0, above || line.Above[r]
		measured = measured || line.Above[r] && line.Node[r].State == load.Fresh
	}
	l.add(node, limited, above, above && !measured)
}

// add adds a node that accepts pods without tolerations. limited reports whether it has a line or rule.
func (l *linesFacts) add(node *corev1.Node, limited, above, unmeasured bool) {
	repels := func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, repels) {
		return
	}
	l.nodes++
	l.limits, l.unmeasured = l.limits || limited, l.unmeasured || unmeasured
	if above {
		l.above = append(l.above, node.Name)
	}
}

// examine sends a Prometheus the queries that a refresh does not need.
func (s *sourceFacts) examine(ctx context.Context) {
	if s.examiner == nil || s.needAnswer() != nil {
		return
	}
	examination, err := s.examiner(ctx, s.windows)
	if s.examination = &examination; !errors.Is(err, context.Canceled) {
		s.examinationErr = err
	}
	if p, ok := s.Source.Source.(*prometheus.Source); ok && len(s.windows) > 0 {
		s.readCoverage(ctx, p)
	}
}

// addReaders adds the figures that the plugins read from the source. Equal requests have equal figures.
func (s *sourceFacts) addReaders() {
	cycle := framework.NewCycleState()
	seen := map[string]bool{}
	for _, reader := range s.Readers {
		request := reader.Request()
		if len(request.Metrics) == 0 {
			s.windows = append(s.windows, request.Windows[:]...)
		}
		if request.Peak != nil && request.Spec.ReadsPodsFromPrometheus() {
			s.histories = append(s.histories, request.Peak.History.Duration)
		}
		maxAge := request.Trust().MaxAge
		key := fmt.Sprint(request.Statistic(load.CPU), request.Statistic(load.Memory), request.Ignores, request.Metrics, maxAge)
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
				s.figures = append(s.figures, figure{Figure: read, node: node.Name, maxAge: maxAge, metric: len(request.Metrics) > 0})
			}
		}
	}
	slices.Sort(s.windows)
	slices.Sort(s.histories)
	s.windows, s.histories = slices.Compact(s.windows), slices.Compact(s.histories)
}
