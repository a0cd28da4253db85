package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	stock "k8s.io/kubernetes/pkg/scheduler/metrics"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// healthy returns a source and a cluster without faults.
func healthy() *sourceFacts {
	pod := schedulerPod()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Spec.NodeName = "n1"
	s := sourceAt("https://prometheus-operated.monitoring.svc:9090", pod)
	s.Took = time.Second
	s.sources = []*sourceFacts{s}
	s.Configuration.Decoded = &schedulerconfig.KubeSchedulerConfiguration{
		Profiles: []schedulerconfig.KubeSchedulerProfile{{SchedulerName: "plimsoll"}},
	}
	s.Configuration.Decoded.LeaderElection.LeaderElect = true
	s.Configuration.Workload.Args = []string{"/bin/kube-scheduler"}
	s.Configuration.Workload.Image = "plimsoll:0.1.0-k8s1.36"
	s.server, s.commandVersion = cluster.Server{GitVersion: "v1.36.3", SkewKnown: true}, "v1.36.3"
	s.nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
	s.permissions = permissionFacts{user: "jane", needed: 79}
	s.lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("plimsoll-1_x"), RenewTime: &metav1.MicroTime{Time: s.now}, LeaseDurationSeconds: ptr.To[int32](15),
	}}
	s.metrics = model.Vector{
		{Metric: model.Metric{"__name__": "plimsoll_load_nodes", "source": "Prometheus", "resource": "cpu", "state": "Fresh"}, Value: 2},
	}
	s.diagnosis.NodeCount, s.diagnosis.Dialect, s.diagnosis.SampleAges.Nodes = 2, "Kubelet", 2
	s.diagnosis.Queries = []diagnosis.QueryDiagnosis{
		{Query: promql.Query{Kind: promql.Mean, Reading: promql.Reading{Dialect: "Kubelet"}, Window: 5 * time.Minute}, Nodes: 2, Highest: 0.5, HighestNode: "n1"},
		{Query: promql.Query{Kind: promql.StdDev, Reading: promql.Reading{Dialect: "Kubelet"}, Window: 5 * time.Minute}, Nodes: 2},
		{Query: promql.Query{Kind: promql.NodeMetric, PromQL: "pressure"}, Nodes: 2},
	}
	s.examination.Sampling = map[string]diagnosis.Sampling{"n1": {Interval: time.Minute, Since: time.Hour}}
	s.examination.Counted, s.Spec.MetricProvider.Selector = true, `{job="node-exporter"}`
	s.lines = []linesFacts{{profile: "plimsoll", plugin: "LoadThreshold", limits: true, nodes: 2}}
	for _, node := range []string{"n1", "n2"} {
		fresh := func(name string, value, fraction float64) figure {
			read := reading.Figure{Name: name, Value: value, Fraction: fraction, Window: 5 * time.Minute, End: s.now, State: load.Fresh}
			return figure{Figure: read, node: node, maxAge: 5 * time.Minute}
		}
		mean, metric := fresh("cpu", 0.5, 0), fresh("pressure", 0, 0)
		mean.StdDev, metric.metric = 0.1, true
		s.figures = append(s.figures, mean, fresh("cpu", 0.7, 0.95), metric)
	}
	return s
}

// addReady adds a ready pod of the scheduler.
func addReady(s *sourceFacts, name string) {
	pod := s.Pods[0].DeepCopy()
	pod.Name = name
	s.Pods, s.Configuration.Workload.Pods = append(s.Pods, pod), append(s.Configuration.Workload.Pods, name)
}

// mixed has series of two clusters.
func mixed(s *sourceFacts) {
	s.examination.Clusters = &diagnosis.Clusters{Label: "cluster", Names: []string{"a", "b"}, Nodes: []string{"n1", "n2"}, BestMatch: "b"}
}

// learns sets one source of statistics, which knows no workload.
func learns(status provider.StatisticsStatus) func(*sourceFacts) {
	status.Publisher = learned.NewPublisher()
	return func(s *sourceFacts) { s.statistics = []provider.StatisticsStatus{status} }
}

// policyOf is a list of a policy like the chart's, for a profile. The policy itself has the name of another one.
func policyOf(profile string) string {
	return fmt.Sprintf(`{"items": [{"metadata": {"name": "plimsoll"}, "spec": {"matchConstraints": {"namespaceSelector": {"matchExpressions": [
		{"key": "plimsoll.io/scheduler", "operator": "In", "values": [%q]}]}}}}]}`, profile)
}

// labelShop sets the label of namespace shop, and the admission policies.
func labelShop(scheduler, policies string, err error) func(*sourceFacts) {
	return func(s *sourceFacts) {
		meta := metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"plimsoll.io/scheduler": scheduler}}
		s.labeled, s.policies, s.policiesErr = []*corev1.Namespace{{ObjectMeta: meta}}, labelSelectors([]byte(policies)), err
	}
}

// waitingGroup sets a pod group of at least 20 pods, and its changes. The scheduler named places it.
func waitingGroup(scheduler string, change func(*cluster.PodGroup)) func(*sourceFacts) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}, Spec: corev1.PodSpec{SchedulerName: scheduler}}
	return func(s *sourceFacts) {
		g := &cluster.PodGroup{Namespace: "shop", Name: "train", MinCount: 20, Waiting: 20, First: pod}
		change(g)
		s.groups = cluster.PodGroups{"shop/train": g}
	}
}

// custom sets a custom query of memory, and its highest value.
func custom(highest float64) func(*sourceFacts) {
	return func(s *sourceFacts) {
		s.Spec.MetricProvider.Queries = &config.LoadQueries{Memory: "mine"}
		s.diagnosis.Queries = []diagnosis.QueryDiagnosis{{
			Query: promql.Query{Kind: promql.Mean, PromQL: "mine", Resource: load.Memory}, Nodes: 2, Highest: highest, HighestNode: "n1",
		}}
	}
}

// withoutLoad returns the figures of cpu of nodes without load.
func withoutLoad(nodes ...string) (figures []figure) {
	for _, node := range nodes {
		figures = append(figures, figure{Figure: reading.Figure{Name: "cpu", Window: 5 * time.Minute}, node: node})
	}
	return figures
}

// programs matches calls of programs that reach a cluster, and inContext those of them that name the context "here".
var (
	programs  = regexp.MustCompile(`\b(kubectl|helm) `)
	inContext = regexp.MustCompile(`\b(kubectl( plimsoll [a-z-]+)? --context|helm --kube-context) here `)
)

// expectChosen expects all commands of the checks to reach the cluster that was checked.
func expectChosen(t *testing.T, f *Facts, run func() []Result) (commands int) {
	t.Helper()
	before := f.chosen
	f.chosen = cluster.Chosen{"context": {"here"}, "as": {"jane"}}
	checks := run()
	f.chosen = before
	for _, c := range checks {
		for _, a := range c.Advice {
			command, grants := a.Text+"\n"+a.Command, a.YAML != "" || strings.Contains(a.Command, " create clusterrolebinding ")
			calls := len(programs.FindAllString(command, -1))
			if calls != len(inContext.FindAllString(command, -1)) || calls > 0 && strings.Contains(command, " jane ") == grants {
				t.Errorf("%s does not reach the cluster as the right user: %s", c.ID, command)
			}
			commands += calls
		}
	}
	return commands
}

// allOf returns the checks of a report, and one more with the command that restarts the scheduler.
func allOf(r *Report) []Result {
	return append(slices.Concat(r.Checks, r.unchecked), Result{Advice: []Advice{{Command: r.Restart}}})
}

// reportChecked runs all checks. It expects each finding to have a fix, and no advice to point to another cluster.
func reportChecked(t *testing.T, f *Facts) *Report {
	t.Helper()
	expectChosen(t, f, func() []Result { return allOf(reportOn(f)) })
	r := reportOn(f)
	for _, c := range slices.Concat(r.Checks, r.unchecked) {
		if c.needsFix() && len(c.Advice) == 0 {
			t.Errorf("%s: %s has no fix", c.ID, c.Message)
		}
	}
	return r
}

func TestReportOn_Healthy(t *testing.T) {
	r := reportChecked(t, healthy().Facts)
	for _, c := range r.Checks {
		if c.Status != OK || len(c.Advice) > 0 {
			t.Errorf("%+v, want nothing to do", c)
		}
	}
	if len(r.Checks) < 20 {
		t.Errorf("%d checks, want 20 or more", len(r.Checks))
	}
}

// TestReportOn_Faults expects each check of the tables to find its fault.
func TestReportOn_Faults(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New("no"))
	found := func(code finding.Code) func(*sourceFacts) {
		return func(s *sourceFacts) { s.Configuration.Findings = []finding.Finding{{Code: code, Field: "f"}} }
	}
	fails := func(err error) func(*sourceFacts) {
		return func(s *sourceFacts) { s.Err, s.diagnosis = err, nil }
	}
	metric := func(name, result string, value float64) *model.Sample {
		return &model.Sample{Value: model.SampleValue(value), Metric: model.Metric{
			"__name__": model.LabelValue(name), "result": model.LabelValue(result), "reason": "Absent", "state": "Absent",
		}}
	}
	sampled := func(interval, since time.Duration) func(*sourceFacts) {
		return func(s *sourceFacts) {
			s.examination.Sampling["n1"] = diagnosis.Sampling{Interval: interval, Since: since}
		}
	}
	faults := map[string]func(*sourceFacts){
		"configuration.found":    func(s *sourceFacts) { s.Configuration, s.configurationErr = nil, errors.New("none") },
		"configuration.decodes":  func(s *sourceFacts) { s.Configuration.Decoded, s.Configuration.Err = nil, errors.New("invalid") },
		"configuration.effect":   found(finding.MetricUnused),
		"configuration.weights":  found(finding.LoadOutweighed),
		"configuration.profiles": func(s *sourceFacts) { s.Configuration.Decoded.Profiles[0].SchedulerName = "default-scheduler" },
		"configuration.runs":     func(s *sourceFacts) { s.clusterErr = errors.New("no plugin") },
		"source.configured":      func(s *sourceFacts) { s.sources = nil },
		"source.statistics":      learns(provider.StatisticsStatus{Label: "pods", WorkloadOutcome: refresh.WorkloadOutcome{Err: errors.New("down")}}),
		"source.pods":            learns(provider.StatisticsStatus{Label: "pods", WorkloadOutcome: refresh.WorkloadOutcome{UnmeasuredErr: errors.New("1 of 5 pods")}}),
		"source.tls":             func(s *sourceFacts) { s.Spec.MetricProvider.InsecureSkipVerify = true },
		"source.answers":         fails(errors.New("quota")),
		"source.selector":        func(s *sourceFacts) { s.Spec.MetricProvider.Selector = "" },
		"source.partial":         func(s *sourceFacts) { s.diagnosis.Queries[0].Partial = errors.New("a store is down") },
		"source.duration":        func(s *sourceFacts) { s.Took = time.Minute },
		"source.examined":        func(s *sourceFacts) { s.examinationErr = errors.New("refused") },
		"source.dialect":         func(s *sourceFacts) { s.diagnosis.NodesWithoutSeries = []string{"n1", "n2"} },
		"source.queries":         func(s *sourceFacts) { s.diagnosis.Queries[0].Err = errors.New("no series") },
		"source.metrics":         func(s *sourceFacts) { s.figures[2].State = load.Absent },
		"nodes.found":            func(s *sourceFacts) { s.nodes = nil },
		"nodes.modelled":         found(finding.NodesUnmodelled),
		"nodes.measured":         func(s *sourceFacts) { s.figures[3].State, s.figures[4].State = load.Absent, load.Absent },
		"nodes.nearest":          func(s *sourceFacts) { s.examination.Unnamed = []string{"n2"} },
		"lines.room":             func(s *sourceFacts) { s.lines[0].above = []string{"n1", "n2"} },
		"lines.annotations": func(s *sourceFacts) {
			s.lines[0].invalid, s.lines[0].problem = []string{"n1"}, "Annotation x is not used"
		},
		"scheduler.restarted": func(s *sourceFacts) {
			s.Configuration.Changed = s.now
			s.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kube-scheduler", State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.now.Add(-time.Minute))},
			}}}
		},
		"nodes.clusters":   mixed,
		"nodes.contested":  func(s *sourceFacts) { s.diagnosis.Contested = []source.Contested{{Node: "n1"}} },
		"time.clock":       func(s *sourceFacts) { s.diagnosis.Skew = time.Minute },
		"time.scrape":      sampled(2*time.Minute, time.Hour),
		"time.coverage":    sampled(time.Minute, time.Minute),
		"time.ahead":       func(s *sourceFacts) { s.examination.Ahead = []string{"n1"} },
		"time.behind":      func(s *sourceFacts) { s.examination.Behind = []string{"n1"} },
		"time.age":         func(s *sourceFacts) { s.figures[0].State = load.Expired },
		"values.zero":      func(s *sourceFacts) { s.figures[0].Value = 0 },
		"values.frozen":    func(s *sourceFacts) { s.examination.Frozen = []string{"n1"} },
		"values.capacity":  func(s *sourceFacts) { s.diagnosis.Queries[0].Highest = 1.2 },
		"permissions.list": func(s *sourceFacts) { s.missing = []cluster.MissingKind{{Resource: "services", Err: forbidden}} },
		"permissions.scheduler": func(s *sourceFacts) {
			s.permissions.missing = []cluster.Permission{{Resource: "nodes", Verbs: []string{"list"}}}
		},
		"scheduler.image": func(s *sourceFacts) {
			s.metrics, s.Configuration.Workload.Image = nil, "registry.k8s.io/kube-scheduler:v1.36.3"
		},
		"scheduler.ready":     func(s *sourceFacts) { s.Pods[0].Status.Conditions = nil },
		"scheduler.leader":    func(s *sourceFacts) { s.lease, s.leaseErr = nil, apierrors.NewNotFound(schema.GroupResource{}, "x") },
		"scheduler.metrics":   func(s *sourceFacts) { s.metrics, s.metricsErr = nil, errors.New("refused") },
		"scheduler.load":      func(s *sourceFacts) { s.metrics = append(s.metrics, metric("plimsoll_load_nodes", "", 1)) },
		"scheduler.refreshes": func(s *sourceFacts) { s.metrics = append(s.metrics, metric("plimsoll_refresh_total", "Error", 9)) },
		"scheduler.statistics": func(s *sourceFacts) {
			s.metrics = append(s.metrics, metric("plimsoll_workloads", "", 7), metric("plimsoll_workload_statistics_age_seconds", "", 1801))
		},
		"scheduler.fallbacks": func(s *sourceFacts) {
			s.metrics = append(s.metrics, metric("plimsoll_decisions_total", "", 10), metric("plimsoll_fallback_total", "", 5))
		},
		"scheduler.speed":   spreading(10, 0.06),
		"scheduler.version": func(s *sourceFacts) { s.server.GitVersion = "v1.35.0" },
		"scheduler.command": func(s *sourceFacts) { s.commandVersion = "v1.37.1" },
		"pods.labeled":      labelShop("plimsoll", "", nil),
		"pods.groups":       waitingGroup("other", func(g *cluster.PodGroup) { g.Missing = 2 }),
		"pods.waiting": func(s *sourceFacts) {
			s.Pods = append(s.Pods, &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "nobody"}})
		},
	}
	ids := map[string]bool{}
	for _, c := range clusterChecks() {
		ids[c.ID] = true
	}
	for _, c := range sourceChecks() {
		ids[c.ID] = true
	}
	if len(faults) != len(ids) {
		t.Errorf("%d faults for %d checks", len(faults), len(ids))
	}
	for id := range ids {
		t.Run(id, func(t *testing.T) {
			if faults[id] == nil {
				t.Fatal("the check has no fault here")
			}
			s := healthy()
			faults[id](s)
			c := find(reportChecked(t, s.Facts).Checks, id)
			if c == nil || c.Status == OK || len(c.Advice) == 0 || strings.Contains(c.Message, "not checked") {
				t.Errorf("got %+v, want a fault with advice", c)
			}
		})
	}
}

// TestReportOn_Supplier expects the check of another package after all others, and among those that can be selected.
func TestReportOn_Supplier(t *testing.T) {
	s := healthy()
	s.supplied = []Check[*Facts]{{ID: "guest.load", Run: func(f *Facts) []Result {
		return Warn(f.AdviseLoadPlugin(), "the guest finds that a profile reads load: %t", f.ReadsLoad())
	}}}
	r := reportChecked(t, s.Facts)
	last := r.Checks[len(r.Checks)-1]
	if last.Group != "guest" || last.ID != "guest.load" || last.Message != "the guest finds that a profile reads load: true" {
		t.Errorf("the last check is %+v", last)
	}
	guest := Supplier{Group: "guest", IDs: []string{"guest.load"}}
	for _, name := range []string{"guest", "guest.load"} {
		selected := []string{name}
		if err := ValidateSelection(selected, guest); err != nil || ValidateSelection(selected) == nil {
			t.Errorf("--check %s: %v with the supplier, %v without", name, err, ValidateSelection(selected))
		}
	}
}

// TestReportOn_NotChecked expects one line with the groups that were not checked.
func TestReportOn_NotChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  func(*sourceFacts)
		reason string
		groups []string
	}{
		{"no configuration", func(s *sourceFacts) { s.Configuration, s.configurationErr = nil, errors.New("none") },
			"no configuration was found", []string{"source", "nodes", "time", "values", "lines", "permissions", "scheduler"}},
		{"an invalid configuration", func(s *sourceFacts) { s.Configuration.Decoded, s.Configuration.Err = nil, errors.New("invalid") },
			"the configuration is invalid", []string{"source", "nodes", "time", "values", "lines", "permissions", "scheduler"}},
		{"no permission to list", func(s *sourceFacts) { s.nodes, s.Pods, s.objectsErr = nil, nil, errors.New("forbidden") },
			"nodes and pods cannot be listed", []string{"configuration", "source", "nodes", "time", "values", "lines", "scheduler", "pods"}},
		{"no nodes", func(s *sourceFacts) { s.nodes = nil }, "the cluster has no nodes", []string{"source", "time", "values"}},
		{"no nodes, and a source that does not ask", func(s *sourceFacts) {
			s.nodes, s.Err, s.diagnosis = nil, source.ErrNoNodes, nil
		}, "the cluster has no nodes", []string{"source", "time", "values"}},
		{"no nodes, and a source that is down", func(s *sourceFacts) { s.nodes, s.Err, s.diagnosis = nil, syscall.ECONNREFUSED, nil },
			"Prometheus could not be read", []string{"nodes", "time", "values", "lines"}},
		{"a source that is down", func(s *sourceFacts) { s.Err, s.diagnosis, s.examination = syscall.ECONNREFUSED, nil, nil },
			"Prometheus could not be read", []string{"nodes", "time", "values", "lines"}},
		{"a source that cannot be examined", func(s *sourceFacts) { s.examinationErr = errors.New("refused") },
			"the series of Prometheus could not be examined", []string{"time", "values"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := healthy()
			tt.fault(s)
			c := find(reportChecked(t, s.Facts).Checks, "unchecked")
			if want := "not checked, because " + tt.reason + ": " + strings.Join(tt.groups, ", "); c == nil || c.Message != want || c.Status != Skipped {
				t.Errorf("%+v, want %q", c, want)
			}
		})
	}
	s := healthy()
	s.Err, s.diagnosis, s.metrics, s.metricsErr = syscall.ECONNREFUSED, nil, nil, errors.New("refused")
	s.supplied = []Check[*Facts]{{"rebalancer.load", []Need[*Facts]{(*Facts).needMetrics}, nil}}
	const want = "not checked, because Prometheus could not be read: nodes, time, values, lines; " +
		"not checked, because the scheduler's metrics could not be read: rebalancer"
	if c := find(reportChecked(t, s.Facts).Checks, "unchecked"); c == nil || c.Message != want {
		t.Errorf("%+v, want %q", c, want)
	}
}

// TestSelect_NotChecked expects a selected check without a fact to be a warning, or an error if its cause is one.
func TestSelect_NotChecked(t *testing.T) {
	down := func(s *sourceFacts) {
		s.Err, s.diagnosis, s.examination, s.figures = syscall.ECONNREFUSED, nil, nil, nil
	}
	unexamined := func(s *sourceFacts) { s.examinationErr = errors.New("refused") }
	unread := func(s *sourceFacts) { s.metrics, s.metricsErr = nil, errors.New("refused") }
	const noSource, noConfiguration = "Prometheus could not be read", "no configuration was found"
	for _, tt := range []struct {
		selected string
		fault    func(*sourceFacts)
		status   Status
		reason   string
		ids      []string
	}{
		{"values.frozen", down, Error, noSource, []string{"values.frozen"}},
		{"source.dialect", down, Error, noSource, []string{"source.dialect"}},
		{"lines", down, Error, noSource, []string{"lines.room"}},
		{"values", down, Error, noSource, []string{"values.zero", "values.frozen", "values.capacity"}},
		{"values.frozen", unexamined, Warning, "the series of Prometheus could not be examined", []string{"values.frozen"}},
		{"scheduler.load", unread, Warning, "the scheduler's metrics could not be read", []string{"scheduler.load"}},
		{"lines", func(s *sourceFacts) { s.Configuration, s.configurationErr = nil, errors.New("none") }, Error, noConfiguration,
			[]string{"lines.room", "lines.annotations"}},
	} {
		t.Run(tt.selected+", "+tt.reason, func(t *testing.T) {
			s := healthy()
			tt.fault(s)
			r := reportOn(s.Facts)
			r.Select([]string{tt.selected})
			var ids []string
			for _, c := range r.Checks {
				if c.Message != "not checked, because "+tt.reason {
					continue // some checks do not apply to the source
				}
				ids = append(ids, c.ID)
				if c.Status != tt.status || len(c.Advice) == 0 {
					t.Errorf("%+v, want %s with advice", c, tt.status)
				}
			}
			if diff := cmp.Diff(tt.ids, ids); diff != "" || r.Failed() != (tt.status == Error) || !r.NeedsFix() {
				t.Errorf("found %v, failed %v (-want +got):\n%s", r.NeedsFix(), r.Failed(), diff)
			}
		})
	}
	s := healthy()
	down(s)
	r := reportOn(s.Facts)
	r.Select([]string{"source"})
	if !r.Failed() || slices.ContainsFunc(r.Checks, func(c Result) bool { return c.cause != "" }) {
		t.Errorf("%+v, want the cause, and no unchecked result beside it", r.Checks)
	}
}

// TestMetrics_NothingCounted expects no ✓ for counts of 0.
func TestMetrics_NothingCounted(t *testing.T) {
	sample := func(name, label, value string, count model.SampleValue) *model.Sample {
		return &model.Sample{
			Metric: model.Metric{"__name__": model.LabelValue(name), model.LabelName(label): model.LabelValue(value)}, Value: count,
		}
	}
	decided := func(count model.SampleValue) model.Vector {
		return model.Vector{sample("plimsoll_decisions_total", "plugin", "P", count)}
	}
	for _, tt := range []struct {
		name    string
		metrics model.Vector
		check   func(*Facts) []Result
		want    string
	}{
		{"a plugin has decided", decided(4), (*Facts).checkFallbacks, "ok P decided 0 of 4 placements without load"},
		{"nothing decided", decided(0), (*Facts).checkFallbacks, "skipped not checked, because no plugin has decided a placement yet"},
		{"no node", model.Vector{sample("plimsoll_load_nodes", "state", "Fresh", 0)}, (*Facts).checkLoadStates,
			"skipped not checked, because the scheduler has looked at no node yet: : "},
		{"no refresh", model.Vector{sample("plimsoll_refresh_total", "result", "Error", 0)}, (*Facts).checkRefreshes,
			"skipped not checked, because the scheduler has not refreshed the load of  yet"},
		{"a refresh panicked", model.Vector{
			sample("plimsoll_refresh_total", "result", "Success", 9), sample("plimsoll_refresh_panics_total", "", "", 1),
		}, (*Facts).checkRefreshes,
			"warning : 1 refreshes panicked since the scheduler started; the load that was read before stayed in use"},
		{"no workload", model.Vector{sample("plimsoll_workloads", "source", "S", 0)}, (*Facts).checkKnownWorkloads,
			"skipped not checked, because the scheduler has read the usage of no workload from S yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy().Facts
			f.metrics = tt.metrics
			got := tt.check(f)
			if len(got) != 1 || string(got[0].Status)+" "+got[0].Message != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

// spreading sets a profile with the stock plugin, beside one without. In 100 decisions, the first took 10 s to choose nodes: 1 s
// before filters, 5 s, 3 s before the scores of the 50 pods that fitted, and 1 s. The plugin was measured in so many decisions. It
// took 5 ms before filters, 500 s in them, and so many seconds before scores, of which two were measured.
func spreading(decisions, preScore float64) func(*sourceFacts) {
	return func(s *sourceFacts) {
		enabled := []schedulerconfig.Plugin{{Name: "PodTopologySpread"}}
		s.Configuration.Decoded.Profiles = []schedulerconfig.KubeSchedulerProfile{
			{SchedulerName: "plimsoll", Plugins: &schedulerconfig.Plugins{MultiPoint: schedulerconfig.PluginSet{Enabled: enabled}}},
			{SchedulerName: "other", Plugins: &schedulerconfig.Plugins{}},
		}
		add := func(name, label, value, point string, count, sum float64) {
			for suffix, number := range map[string]float64{"_count": count, "_sum": sum} {
				s.metrics = append(s.metrics, &model.Sample{Value: model.SampleValue(number), Metric: model.Metric{
					"__name__": model.LabelValue(name + suffix), model.LabelName(label): model.LabelValue(value),
					"extension_point": model.LabelValue(point),
				}})
			}
		}
		stock.Register()
		points, measured := stock.FrameworkExtensionPointDuration.FQName(), stock.PluginExecutionDuration.FQName()
		add(points, "profile", "plimsoll", "PreFilter", 100, 1)
		add(points, "profile", "plimsoll", "Filter", 100, 5)
		add(points, "profile", "plimsoll", "PreScore", 50, 3)
		add(points, "profile", "plimsoll", "Score", 50, 1)
		add(points, "profile", "plimsoll", "Bind", 50, 1000)
		add(points, "profile", "other", "Filter", 100, 1000)
		add(measured, "plugin", "PodTopologySpread", "PreFilter", decisions, 0.005*decisions)
		add(measured, "plugin", "PodTopologySpread", "Filter", 10, 500)
		add(measured, "plugin", "PodTopologySpread", "PreScore", 2, 2*preScore)
		add(measured, "plugin", "NodeResourcesFit", "PreScore", 10, 500)
	}
}

// Counters that cannot be read must not count as counters that grow.
func TestCheckFrozen_NotCounted(t *testing.T) {
	s := healthy()
	s.examination.Counted = false
	const want = "not checked whether load is frozen, because no counters of cpu are known"
	if got := s.checkFrozen(); len(got) != 1 || got[0].Status != Skipped || got[0].Message != want {
		t.Errorf("%+v, want %q, skipped", got, want)
	}
}

// TestLinesFacts_Add expects that a node without a line passes, and a node without load if missingLoad lets it pass.
func TestLinesFacts_Add(t *testing.T) {
	line := func(percent float64, state load.State, above bool) (l explain.LoadLine) {
		l.Percent[load.CPU], l.Node[load.CPU].State, l.Above[load.CPU] = percent, state, above
		return l
	}
	over, passes, rejected, without := line(70, load.Fresh, true), line(70, load.Absent, false), line(70, load.Absent, true), line(0, load.Absent, false)
	for _, tt := range []struct {
		name  string
		lines []explain.LoadLine
		want  Status
		text  string
	}{
		{"no load where missingLoad passes", []explain.LoadLine{over, over, passes}, OK, "1 of 3 nodes not above their load line"},
		{"a node without a line", []explain.LoadLine{over, without}, OK, "1 of 2 nodes not above their load line"},
		{"all measured, and above", []explain.LoadLine{over, over}, Error, "all 2 nodes above their load line (n0, n1); no pod"},
		{"one without load, which is rejected", []explain.LoadLine{over, rejected}, Error,
			"all 2 nodes above their load line, or without load, which missingLoad: Reject rejects (n0, n1)"},
		{"no line of any node", []explain.LoadLine{without, without}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, l := healthy(), linesFacts{profile: "plimsoll", plugin: "LoadThreshold"}
			for i, line := range tt.lines {
				l.addLine(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}, line)
			}
			l.addLine(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, passes)
			s.lines = []linesFacts{l}
			got := s.checkLines()
			if tt.want == "" && got == nil {
				return
			}
			if len(got) != 1 || got[0].Status != tt.want || !strings.Contains(got[0].Message, tt.text) {
				t.Errorf("%+v, want %s with %q", got, tt.want, tt.text)
			}
		})
	}
}

// TestReportOn_Messages expects the message and the advice of each fault.
func TestReportOn_Messages(t *testing.T) {
	lone := learns(provider.StatisticsStatus{Label: "pods"}) // pods without an owner are not of a workload
	expired := func(f figure) func(*sourceFacts) {
		return func(s *sourceFacts) {
			f.State, f.node, f.End, f.maxAge = load.Expired, "n1", s.now, time.Minute
			s.figures = []figure{f}
		}
	}
	unnamed := func(strays ...string) func(*sourceFacts) {
		return func(s *sourceFacts) {
			s.diagnosis.NodeCount, s.examination.Sampling = 11, map[string]diagnosis.Sampling{"healthy": {Interval: time.Second}}
			for i := range 10 {
				s.diagnosis.NodesWithoutSeries = append(s.diagnosis.NodesWithoutSeries, fmt.Sprintf("w%d", i))
			}
			s.figures = append(s.figures[:3], withoutLoad(s.diagnosis.NodesWithoutSeries...)...)
			s.examination.Unnamed, s.examination.Strays = s.diagnosis.NodesWithoutSeries, strays
		}
	}
	unmeasured := func(from config.MetricProviderType) func(*sourceFacts) {
		return learns(provider.StatisticsStatus{
			Label: "pods of p", WorkloadOutcome: refresh.WorkloadOutcome{UnmeasuredErr: errors.New("1 of 5 pods")}, Spec: config.LoadSpec{MetricProvider: config.MetricProviderSpec{Type: from}},
		})
	}
	for _, tt := range []struct {
		name  string
		fault func(*sourceFacts)
		id    string
		want  Status
		texts []string
	}{
		{"the plugin that needs no more than nodes' load", func(s *sourceFacts) { s.sources = nil }, "source.configured", Warning, []string{"- name: TargetLoadPacking\n"}},
		{"an expired quantile", expired(figure{Figure: reading.Figure{Name: "cpu", Fraction: 0.95, Value: 0.5}}), "time.age", Error, []string{"n1 cpu 0.95-quantile"}},
		{"an expired node metric", expired(figure{Figure: reading.Figure{Name: "pressure", Value: 3}, metric: true}), "time.age", Error, []string{`n1 metric "pressure"`}},
		{"a quantile at zero", func(s *sourceFacts) { s.figures[1].Value = 0 }, "values.zero", Warning, []string{"n1 cpu 0.95-quantile"}},
		{"a query of cpu that matches no node, beside memory", func(s *sourceFacts) {
			s.figures = withoutLoad("n1", "n2")
			for _, node := range []string{"n1", "n2"} {
				s.figures = append(s.figures, figure{Figure: reading.Figure{Name: "memory", Value: 0.5, End: s.now, State: load.Fresh}, node: node})
			}
		}, "nodes.measured", Error, []string{"nodes without load of cpu over 5m, which a plugin reads: 2 of 2 (n1, n2)"}},
		{"a window of two of one resource", func(s *sourceFacts) {
			s.figures = withoutLoad("n1")
			s.figures = append(s.figures, figure{Figure: reading.Figure{Name: "cpu", Window: time.Hour, Value: 0.5, End: s.now, State: load.Fresh}, node: "n1"})
		}, "nodes.measured", Warning, []string{"nodes without load of cpu over 5m, which a plugin reads: 1 of 2 (n1)"}},
		{"a custom query of cpu without series", func(s *sourceFacts) {
			s.figures = withoutLoad("n1", "n2")
			s.diagnosis.Queries[0] = diagnosis.QueryDiagnosis{Query: promql.Query{Kind: promql.Mean, PromQL: "mine"}, Err: errors.New("no series")}
		}, "nodes.measured", Error, []string{"Correct the custom query", "query=mine"}},
		{"several servers behind one name", func(s *sourceFacts) { s.examination.Servers = true }, "source.examined", Warning,
			[]string{"several servers answer at the address", "the Service of one Prometheus object", "sessionAffinity: ClientIP"}},
		{"half of the nodes are silently gone", func(s *sourceFacts) {
			s.diagnosis.NodeCount, s.examination.Unnamed = 20, slices.Repeat([]string{"n"}, 10)
		}, "source.partial", Warning, []string{"the answers have series of 10 of 20 nodes, and do not say why", "--endpoint-strict"}},
		{"a tenth of the nodes is gone", func(s *sourceFacts) {
			s.diagnosis.NodeCount, s.examination.Unnamed = 20, slices.Repeat([]string{"n"}, 2)
		}, "source.partial", OK, []string{"no answer lacks data"}},
		{"targets on the nodes are down", func(s *sourceFacts) {
			s.diagnosis.NodeCount, s.examination.Unnamed, s.examination.Down = 20, slices.Repeat([]string{"n"}, 10), []string{"up{}"}
		}, "source.partial", OK, []string{"no answer lacks data"}},
		{"a machine that another replaced", func(s *sourceFacts) {
			s.diagnosis.Replaced = []source.Replaced{{Node: "n2", Address: "10.0.0.1", By: "n1"}}
		}, "nodes.nearest", Warning, []string{"n2 is not ready, and has the address 10.0.0.1 of n1, which is", "Delete Nodes that are gone."}},
		{"a target that is down", func(s *sourceFacts) {
			s.diagnosis.NodesWithoutSeries, s.figures = []string{"n2"}, append(s.figures[:3], withoutLoad("n2")...)
			s.examination.Down = []string{`up{instance="n2:9100"}`}
		}, "nodes.measured", Warning, []string{`Prometheus cannot scrape up{instance="n2:9100"}. Start the exporter there`}},
		{"samples that are dated ahead", func(s *sourceFacts) {
			s.examination.Ahead, s.examination.Lead = []string{"n1"}, 4*time.Minute
		}, "time.ahead", Error, []string{"samples are dated ahead of the source's clock, by up to 4m0s: n1", "Correct the clock"}},
		{"nodes without load in the scheduler alone", func(s *sourceFacts) {
			s.metrics = model.Vector{{Metric: model.Metric{"__name__": "plimsoll_load_nodes", "state": "Absent"}, Value: 2}}
		}, "scheduler.load", Error, []string{"absent on 2 nodes", "If they find nothing, check in the scheduler's pod"}},
		{"samples that are dated back", func(s *sourceFacts) {
			s.examination.Behind, s.examination.Lag = []string{"n1"}, 100*time.Second
		}, "time.behind", Error, []string{"samples stopped, or are dated back", "the newest is up to 1m40s old: n1", "are up", "honor_timestamps: false"}},
		{"a token file that only the pod has", func(s *sourceFacts) {
			s.Err, s.diagnosis = fmt.Errorf("tokenFile t: %w", cluster.ErrNotHere), nil
		}, "source.answers", Warning, []string{"not checked from here: tokenFile t", "exec deploy/plimsoll"}},
		{"statistics of a source in the cluster", learns(provider.StatisticsStatus{
			Label: "pods", WorkloadOutcome: refresh.WorkloadOutcome{Err: cluster.ErrNotHere},
		}), "source.statistics", Warning, []string{"pods: not checked from here: ", "exec deploy/plimsoll"}},
		{"a source in the cluster, which the scheduler reads", func(s *sourceFacts) {
			s.Err, s.diagnosis, s.Adopted = cluster.ErrNotHere, nil, true
		}, "source.answers", Skipped, []string{"not checked from here, but the scheduler reads it: "}},
		{"a token without permission", func(s *sourceFacts) {
			s.Err, s.diagnosis = &httpclient.StatusError{Code: 403}, nil
		}, "source.answers", Error, []string{"The server knows the token, and denies it permission"}},
		{"a token that is not accepted", func(s *sourceFacts) {
			s.Err, s.diagnosis = &httpclient.StatusError{Code: 401}, nil
		}, "source.answers", Error, []string{"The server does not accept the token, which may have expired. Write a new one"}},
		{"a server that fails", func(s *sourceFacts) {
			s.Err, s.diagnosis = &httpclient.StatusError{Code: 503}, nil
		}, "source.answers", Error, []string{"answers, and fails"}},
		{"a page in place of an answer", func(s *sourceFacts) {
			s.Err, s.diagnosis = fmt.Errorf("no response of Prometheus: %w", &json.SyntaxError{}), nil
			s.Spec.MetricProvider.Type = config.Prometheus
		}, "source.answers", Error, []string{"no API of Prometheus at this path"}},
		{"no node below its line", func(s *sourceFacts) { s.lines[0].above = []string{"n1", "n2"} }, "lines.room", Error,
			[]string{"LoadThreshold of profile plimsoll: all 2 nodes above their load line (n1, n2); no pod is placed", "whenNoneFits: Relax"}},
		{"no node below a line that is waived", func(s *sourceFacts) { s.lines[0].above, s.lines[0].waives = []string{"n1", "n2"}, true }, "lines.room",
			Warning, []string{"which is waived for every pod", "kubectl plimsoll top --scheduler-name plimsoll"}},
		{"no node below a line of a file's profile", func(s *sourceFacts) {
			s.lines[0].above, s.options.Configuration.File = []string{"n1", "n2"}, "my profiles.yaml"
			s.options.Source = cluster.SourceOptions{Address: "http://localhost:9090", TokenFile: "t"}
		}, "lines.room", Error, []string{
			"kubectl plimsoll top --scheduler-name plimsoll --config 'my profiles.yaml' --source-address http://localhost:9090 --source-token-file t",
		}},
		{"a cluster of another context", func(s *sourceFacts) {
			s.lines[0].above, s.chosen = []string{"n1", "n2"}, cluster.Chosen{"kubeconfig": {"k"}, "context": {"a"}}
		}, "lines.room", Error, []string{"kubectl plimsoll top --kubeconfig k --context a --scheduler-name plimsoll"}},
		{"no node that passes a rule", func(s *sourceFacts) { s.lines[0].above, s.lines[0].rules = []string{"n1", "n2"}, true }, "lines.room",
			Error, []string{"all 2 nodes rejected by its rules (n1, n2); no pod is placed", "change the rules of", "whenNoneFits: Relax"}},
		{"metrics that cannot be read of a release", func(s *sourceFacts) {
			s.metrics, s.metricsErr, s.Configuration.Workload.Release = nil, errors.New("refused"), "plimsoll"
		}, "scheduler.metrics", Warning, []string{"helm upgrade plimsoll oci://", "--set serviceMonitor.enabled=true --set servingCertificate.secretName=SECRET"}},
		{"metrics that cannot be read of rendered manifests", func(s *sourceFacts) { s.metrics, s.metricsErr = nil, errors.New("refused") },
			"scheduler.metrics", Warning, []string{"by the chart's values serviceMonitor.enabled=true and servingCertificate.secretName=SECRET."}},
		{"a replica that is missing", func(s *sourceFacts) { s.Configuration.Workload.Replicas = ptr.To[int32](3) }, "scheduler.ready", Warning,
			[]string{"1 of 3 pods of Deployment plimsoll-system/plimsoll ready", "kubectl -n plimsoll-system describe deployment plimsoll"}},
		{"a scheduler scaled to 0", func(s *sourceFacts) {
			s.Configuration.Workload.Replicas, s.Configuration.Workload.Pods = new(int32), nil
		}, "scheduler.ready", Error, []string{"0 of 0 pods", "scale deployment plimsoll --replicas=2"}},
		{"two schedulers without leader election", func(s *sourceFacts) {
			s.Configuration.Decoded.LeaderElection.LeaderElect = false
			addReady(s, "plimsoll-2")
			s.Configuration.Workload.Replicas = ptr.To[int32](2)
		}, "scheduler.leader", Error, []string{
			"leader election is disabled, and 2 pods of Deployment plimsoll-system/plimsoll place the same pods",
			"leaderElection:\n  leaderElect: true\n  resourceName: plimsoll\n  resourceNamespace: plimsoll-system\n",
		}},
		{"two schedulers without leader election, by a flag", func(s *sourceFacts) {
			addReady(s, "plimsoll-2")
			s.Configuration.Workload.Args = append(s.Configuration.Workload.Args, "--leader-elect=false")
		}, "scheduler.leader", Error, []string{"Remove --leader-elect=false from the scheduler's command line"}},
		{"a rollout without leader election", func(s *sourceFacts) {
			s.Configuration.Decoded.LeaderElection.LeaderElect = false
			addReady(s, "plimsoll-2")
			s.Configuration.Workload.Replicas = ptr.To[int32](1)
		}, "scheduler.leader", OK, []string{"leader election is disabled"}},
		{"a Lease that another pod holds", func(s *sourceFacts) {
			s.Configuration.Decoded.LeaderElection.ResourceName, s.Configuration.Decoded.LeaderElection.ResourceNamespace = "plimsoll", "plimsoll-system"
			s.lease.Spec.HolderIdentity = ptr.To("other-1_x")
			s.Pods = append(s.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "other-1"}, Spec: corev1.PodSpec{NodeName: "n1"}})
		}, "scheduler.leader", Warning, []string{
			"Lease plimsoll-system/plimsoll is held by other-1, which is not a pod of", "Stop the other scheduler", "kubectl -n team describe pod other-1",
			"leaderElection:\n  resourceName: plimsoll-2\n  resourceNamespace: plimsoll-system\n",
		}},
		{"a Lease that a process outside holds", func(s *sourceFacts) {
			s.Configuration.Decoded.LeaderElection.ResourceName, s.Configuration.Decoded.LeaderElection.ResourceNamespace = "kube-scheduler", "kube-system"
			s.lease.Spec.HolderIdentity = ptr.To("master-1_x")
		}, "scheduler.leader", Warning, []string{
			"Lease kube-system/kube-scheduler is held by master-1", "If both should run, in",
			"leaderElection:\n  resourceName: plimsoll\n  resourceNamespace: plimsoll-system\n", "If not, stop the scheduler that runs on the machine master-1.",
		}},
		{"a pod without a node", func(s *sourceFacts) {
			s.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}
		}, "scheduler.ready", Error, []string{"0 of 1 pod of Deployment plimsoll-system/plimsoll ready; plimsoll-1 has no node: 0/2 nodes are available"}},
		{"a group too small", waitingGroup("other", func(g *cluster.PodGroup) { g.Waiting, g.Missing = 18, 2 }), "pods.groups", Warning, []string{
			"Group shop/train, minimum 20: 0 bound, 18 waiting, 2 missing: none is placed.", "Create the missing pods",
		}},
		{"a group that does not exist", waitingGroup("other", func(g *cluster.PodGroup) { g.Absent = true }), "pods.groups", Error,
			[]string{"Group shop/train does not exist: none of its 20 waiting pods is placed.", "Create the PodGroup"}},
		{"a group without room", waitingGroup("other", func(g *cluster.PodGroup) { g.Unplaced = "no room" }), "pods.groups", Warning,
			[]string{"20 waiting. The scheduler: no room", "kubectl plimsoll explain p -n shop"}},
		{"a group without the gate", waitingGroup("plimsoll", func(g *cluster.PodGroup) { g.Absent = true }), "pods.groups", Error,
			[]string{"lacks the feature gate GenericWorkload: shop/train", "--feature-gates=GenericWorkload=true"}},
		{"a group and the gate", func(s *sourceFacts) {
			s.Configuration.Workload.Args = append(s.Configuration.Workload.Args, "--feature-gates=A=false,GenericWorkload=1")
			waitingGroup("plimsoll", func(g *cluster.PodGroup) { g.Missing = 1 })(s)
		}, "pods.groups", Warning, []string{"1 missing"}},
		{"a label that no policy reads", labelShop("plimsoll", "", nil), "pods.labeled", Error, []string{
			"namespace shop has the label plimsoll.io/scheduler=plimsoll, and no pod with this scheduler: no MutatingAdmissionPolicy reads the label",
			"Install the policy, and create the pods anew, by the chart's values admissionPolicy.enabled=true.",
		}},
		{"a label that the policy does not name", labelShop("plimsoll", policyOf("other"), nil), "pods.labeled", Error,
			[]string{"no MutatingAdmissionPolicy reads the label"}},
		{"a label where the API server has no policies", labelShop("plimsoll", "", apierrors.NewNotFound(schema.GroupResource{}, "x")), "pods.labeled", Error,
			[]string{"no MutatingAdmissionPolicy reads the label"}},
		{"a label beside policies that cannot be listed", labelShop("plimsoll", "", apierrors.NewForbidden(schema.GroupResource{}, "x", nil)), "pods.labeled", Skipped,
			[]string{"not checked whether a policy reads the label"}},
		{"a label younger than its namespace's pods", func(s *sourceFacts) {
			labelShop("plimsoll", policyOf("plimsoll"), nil)(s)
			s.Pods = append(s.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}})
		}, "pods.labeled", Warning, []string{"a policy reads the label for new pods alone", "kubectl -n shop rollout restart deployment"}},
		{"a label without a profile", labelShop("plimsol", policyOf("plimsoll"), nil), "pods.labeled", Error, []string{
			"plimsoll.io/scheduler=plimsol, and no pod with this scheduler: no profile has this name",
			"kubectl label --overwrite namespace shop plimsoll.io/scheduler=plimsoll",
		}},
		// The window is 2 h, the history 24 h. 0.375 of them are 45 min, and 9 h.
		{"a long window that the data do not cover", func(s *sourceFacts) {
			s.windows, s.coverage = append(s.windows, 2*time.Hour), map[time.Duration]float64{2 * time.Hour: 0.375}
		}, "time.coverage", Warning, []string{"the server has data of 38 % of the window of 2h0m0s", "Wait until the server has data of 2h0m0s", "write at most 45m0s instead"}},
		{"a long window that the data cover", func(s *sourceFacts) {
			s.windows, s.coverage = append(s.windows, 2*time.Hour), map[time.Duration]float64{2 * time.Hour: 0.95}
		}, "time.coverage", OK, []string{"the server has data of 95 % of the window of 2h0m0s"}},
		{"a history that the data do not cover", func(s *sourceFacts) {
			s.nodes[0].CreationTimestamp = metav1.NewTime(s.now.Add(-25 * time.Hour))
			s.histories, s.coverage = []time.Duration{24 * time.Hour}, map[time.Duration]float64{24 * time.Hour: 0.375}
		}, "time.coverage", Warning, []string{"the server has data of 38 % of the history of 24h0m0s", "write at most 9h0m0s instead"}},
		{"a coverage that the server does not tell", func(s *sourceFacts) {
			s.windows, s.coverageErr = append(s.windows, 2*time.Hour), errors.New("too many samples")
		}, "time.coverage", Skipped, []string{"not checked whether the server has data of 2h0m0s: too many samples"}},
		{"a history of a new cluster", func(s *sourceFacts) {
			for i := range s.nodes {
				s.nodes[i].CreationTimestamp = metav1.NewTime(s.now.Add(-23 * time.Hour))
			}
			s.histories, s.coverage = []time.Duration{24 * time.Hour}, map[time.Duration]float64{24 * time.Hour: 0.375}
		}, "time.coverage", Skipped, []string{"the server has data of 38 % of the history of 24h0m0s, and the cluster is younger"}},
		{"the second of two windows", func(s *sourceFacts) {
			s.windows = append(s.windows, 10*time.Minute)
			s.examination.Sampling["n1"] = diagnosis.Sampling{Interval: time.Minute, Since: 6 * time.Minute}
		}, "time.coverage", Warning, []string{"samples of 1 node cover less than the window of 10m0s; of n1 they cover 60 %"}},
		{"scrapes that are too rare for one of two windows", func(s *sourceFacts) {
			s.windows = append(s.windows, 10*time.Minute)
			s.examination.Sampling["n1"] = diagnosis.Sampling{Interval: 90 * time.Second, Since: time.Hour}
		}, "time.scrape", Warning, []string{"nodes are measured every 1m30s (n1), over a window of 5m0s: not often enough"}},
		// 64 and 8e9 stand for percent and bytes.
		{"a query that returns percent", custom(64), "values.capacity", Error, []string{"6400 %", "If it returns percent, divide it by 100", "query=mine"}},
		{"a query that returns bytes", custom(8e9), "values.capacity", Error, []string{
			"is above capacity on n1: 8e+11 %, which counts as 100 %", "an amount, such as bytes or cores", "query=mine",
		}},
		{"a custom query that is a little above", custom(1.5), "values.capacity", Warning, []string{"on n1: 150 %", "The node is overloaded"}},
		{"a Lease that is about to run out", func(s *sourceFacts) { s.lease.Spec.RenewTime.Time = s.now.Add(-15 * time.Second) },
			"scheduler.leader", OK, []string{"plimsoll-1 leads"}},
		{"an image with the name of the stock one, without metrics", func(s *sourceFacts) {
			s.metrics, s.Configuration.Workload.Image = nil, "corp/kube-scheduler:v1.36.3-mine"
		}, "scheduler.image", Warning, []string{"seems to run the stock scheduler"}},
		{"a stock image beside the metrics of another scheduler", func(s *sourceFacts) {
			s.metrics[0].Metric["pod"] = "other-1"
			s.metrics = s.ofScheduler(s.metrics)
			s.Configuration.Workload.Image = "registry.k8s.io/kube-scheduler:v1.36.3"
		}, "scheduler.image", Warning, []string{"image registry.k8s.io/kube-scheduler:v1.36.3"}},
		{"a stock image by what its metrics show", func(s *sourceFacts) {
			s.metrics = model.Vector{{Metric: model.Metric{"__name__": "kubernetes_build_info", "git_version": "v1.36.3"}}}
		}, "scheduler.image", Error, []string{"runs the stock scheduler", "image plimsoll:0.1.0-k8s1.36"}},
		// 100 × 5 ms and 50 × 60 ms are 3.5 s of 10 s, and 100 × 5 ms and 50 × 50 ms are 3 s.
		{"pods that the stock plugin spreads", spreading(10, 0.06), "scheduler.speed", Warning, []string{
			"PodTopologySpread takes 35 % of the time in which nodes are chosen since the scheduler started",
			"IncrementalPodTopologySpread gives the same answers faster. In ConfigMap plimsoll-system/plimsoll, replace the stock plugin (profile plimsoll)",
			"disabled:\n    - name: PodTopologySpread\n    enabled:\n    - name: IncrementalPodTopologySpread\n      weight: 2\n",
		}},
		{"pods that are spread fast enough", spreading(10, 0.05), "scheduler.speed", OK, []string{"takes 30 %"}},
		{"pods that have just been spread", spreading(9, 0.06), "scheduler.speed", Skipped, []string{"not been measured in 10 decisions yet"}},
		{"pods of no workload", lone, "source.statistics", Skipped, []string{"no pod of a workload is measured yet"}},
		{"a configuration of a file", func(s *sourceFacts) { s.Configuration.Workload = nil }, "scheduler.ready", Skipped,
			[]string{"not checked, because ConfigMap plimsoll-system/plimsoll names no running scheduler: name one"}},
		{"a path without the API", func(s *sourceFacts) {
			s.Err, s.diagnosis = &httpclient.StatusError{Code: 404, Body: []byte("404 page not found")}, nil
			s.Spec.MetricProvider.Type = config.Prometheus
		}, "source.answers", Error, []string{"no API of Prometheus at this path", "/prometheus"}},
		{"nodes that no series names", unnamed(), "nodes.nearest", Warning, []string{"no series has a label that names a node without load: w0, w1, w2, w3, w4, …"}},
		{"series that name no node", unnamed(`up{instance="a"}`), "nodes.nearest", Warning,
			[]string{`no label names these nodes without load: w0, w1, w2, w3, w4, …; these series name no node: up{instance="a"}`,
				"- sourceLabels: [__meta_kubernetes_pod_node_name]"}},
		{"nodes beside series that name no node", unnamed(`up{instance="a"}`), "nodes.measured", Warning,
			[]string{"10 of 11", "- sourceLabels: [__meta_kubernetes_pod_node_name]"}},
		{"most pods unmeasured by Prometheus", unmeasured(config.Prometheus), "source.pods", Warning,
			[]string{"pods of p: 1 of 5 pods", "Let Prometheus scrape"}},
		{"most pods unmeasured by metrics-server", unmeasured(config.KubernetesMetricsServer), "source.pods", Warning,
			[]string{"pods of p: 1 of 5 pods", "kubectl top pods --all-namespaces"}},
		{"a node about which two target sets differ, beside a selector", func(s *sourceFacts) {
			s.Spec.MetricProvider.Selector = `{cluster="a"}`
			s.diagnosis.Contested = []source.Contested{{Node: "n1", High: `{job="node-exporter"}`, Low: `{job="b"}`}, {Node: "n2"}}
		}, "nodes.contested", Warning, []string{
			`2 nodes scored by requests, because target sets differ: n1, n2, such as {job="node-exporter"} and {job="b"}`,
			"either may be a tenant's", "metricProvider:\n  selector: '{cluster=\"a\", job=\"node-exporter\"}'",
			"If the second is your exporter's", "metricProvider:\n  selector: '{cluster=\"a\", job=\"b\"}'",
		}},
		{"no selector", func(s *sourceFacts) { s.Spec.MetricProvider.Selector = "" }, "source.selector", Warning, []string{
			"whoever adds a scrape target can change the load", "query=group by (job, namespace, service) (up)",
			"metricProvider:\n  selector: '{namespace=\"monitoring\", job=\"node-exporter\"}'",
		}},
		{"several clusters", func(s *sourceFacts) { // their targets have the same labels
			const same = `{job="node-exporter"}`
			s.diagnosis.Contested = []source.Contested{{Node: "n1", High: same, Low: same}}
			mixed(s)
		}, "nodes.clusters", Error, []string{
			"2 nodes named by series of several clusters (cluster a, b): n1, n2", "selector: '{job=\"node-exporter\", cluster=\"b\"}'",
		}},
		{"several clusters beside a selector", func(s *sourceFacts) {
			s.Spec.MetricProvider.Selector = `{job="kubelet", }`
			mixed(s)
		}, "nodes.clusters", Error, []string{"selector: '{job=\"kubelet\", cluster=\"b\"}'"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := healthy()
			tt.fault(s)
			c := find(reportChecked(t, s.Facts).Checks, tt.id)
			if c == nil || c.Status != tt.want {
				t.Fatalf("got %+v, want %s", c, tt.want)
			}
			for _, text := range tt.texts {
				check.Contains(t, fmt.Sprint(c), text)
			}
		})
	}
}

// A file of power models that only the scheduler's pod has is replaced in the simulation alone.
func TestWithPowerModels(t *testing.T) {
	t.Setenv(config.NodePowerModelVariable, "")
	s, args := healthy(), &config.PeaksArgs{}
	s.Configuration.Workload.Env = map[string]string{config.NodePowerModelVariable: "/etc/models.json"}
	s.Configuration.Decoded.Profiles[0].PluginConfig = []schedulerconfig.PluginConfig{{Name: config.Peaks, Args: args}}
	simulated := (&gatherer{Facts: s.Facts}).withPowerModels().Profiles[0].PluginConfig[0].Args.(*config.PeaksArgs)
	if len(simulated.NodePowerModels) != 1 || len(args.NodePowerModels) > 0 {
		t.Errorf("models %+v, and %+v in the cluster; want one, and none", simulated.NodePowerModels, args.NodePowerModels)
	}
}

// TestReportOn_Chosen expects the commands of nodes.found, scheduler.ready (2), scheduler.metrics, a grant and the restart.
func TestReportOn_Chosen(t *testing.T) {
	s := healthy()
	s.Pods[0].Status.Conditions, s.metrics, s.metricsErr, s.nodes = nil, nil, errors.New("refused"), nil
	s.permissions.missing = []cluster.Permission{{Resource: "nodes", Verbs: []string{"list"}}}
	if commands := expectChosen(t, s.Facts, func() []Result { return allOf(reportOn(s.Facts)) }); commands < 6 {
		t.Errorf("%d commands, want 6 or more", commands)
	}
}

// TestOfScheduler expects samples of the scheduler's pods, and of no others. The API server and the kubelets export build_info too.
func TestOfScheduler(t *testing.T) {
	const nodes, build = "plimsoll_load_nodes", "kubernetes_build_info"
	of := func(metric, namespace, pod model.LabelValue) *model.Sample {
		sample := &model.Sample{Metric: model.Metric{"__name__": metric}}
		if pod != "" {
			sample.Metric["namespace"], sample.Metric["pod"] = namespace, pod
		}
		return sample
	}
	for _, tt := range []struct {
		name     string
		sample   *model.Sample
		workload bool
		want     int
	}{
		{"the scheduler's pod", of(nodes, "plimsoll-system", "plimsoll-1"), true, 1},
		{"another pod", of(nodes, "plimsoll-system", "other-1"), true, 0},
		{"a pod of the name in another namespace", of(nodes, "other", "plimsoll-1"), true, 0},
		{"a static target", of(nodes, "", ""), true, 1},
		{"any pod, where none is known", of(nodes, "other", "plimsoll-1"), false, 1},
		{"the version of the scheduler", of(build, "plimsoll-system", "plimsoll-1"), true, 1},
		{"the version of a kubelet", of(build, "", ""), true, 0},
		{"durations of any scheduler", of(pluginSeconds+"_sum", "", ""), true, 0},
		{"any version, where no pod is known", of(build, "other", "plimsoll-1"), false, 0},
	} {
		s := healthy()
		if !tt.workload {
			s.Configuration.Workload = nil
		}
		if got := s.ofScheduler(model.Vector{tt.sample}); len(got) != tt.want {
			t.Errorf("%s: %v, want %d of them", tt.name, got, tt.want)
		}
	}
}

// TestAddReaders expects the figures that each plugin reads.
func TestAddReaders(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := load.Measurement{Stat: load.Stat{Mean: 0.5, StdDev: 0.1, Known: true}, Window: time.Minute, End: now}
	loads := readingtest.New(testingclock.NewFakePassiveClock(now))
	loads.MeasureAll(map[string]load.NodeLoad{"n1": {m, m}}, map[string]load.MetricTable{"pressure": {"n1": {Value: 3, End: now}}})
	spec := config.LoadSpec{Window: metav1.Duration{Duration: time.Minute}}
	spec.MaxAge.Duration, spec.RefreshInterval.Duration = 5*time.Minute, 30*time.Second
	windows := [load.ResourceCount]time.Duration{time.Minute, time.Minute}
	for _, tt := range []struct {
		name      string
		request   reading.Request
		want      float64
		deviation float64
	}{
		{"a mean", reading.Request{Spec: spec, Windows: windows}, 0.5, 0.1},
		{"a maximum", reading.Request{Spec: spec, Windows: windows, Fraction: 1}, 0.5, 0},
		{"a node metric", reading.Request{Spec: spec, Metrics: []string{"pressure"}}, 3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sourceAt("")
			s.windows = nil
			s.nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
			for range 2 { // two plugins that read the same
				reader := check.Value(loads.Open(t.Context(), nil, tt.request))(t)
				s.Readers = append(s.Readers, reader)
			}
			s.addReaders()
			if len(s.figures) == 0 || len(s.figures) > 2 {
				t.Fatalf("figures %+v", s.figures)
			}
			for _, f := range s.figures {
				if f.Value != tt.want || f.State != load.Fresh || !f.End.Equal(now) || f.node != "n1" || f.StdDev != tt.deviation ||
					f.Fraction != tt.request.Fraction {
					t.Errorf("figure %+v, want %v", f, tt.want)
				}
			}
		})
	}
}

// A label that a policy reads has no finding: the namespace's pods are older, or the policy excludes them.
func TestCheckLabels_Read(t *testing.T) {
	s := sourceAt("http://a")
	labelShop("plimsoll", policyOf("plimsoll"), nil)(s)
	check.Equal(t, "findings", nil, s.checkLabels())
}
