package whatif

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// loadLines returns how all nodes stand against the load line of r, by name; nil if r is nil.
func loadLines(ctx context.Context, s *sim.Scheduler, r explain.LoadReader) (map[string]explain.LoadLine, error) {
	if r == nil {
		return nil, nil
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	state, lines := framework.NewCycleState(), make(map[string]explain.LoadLine, len(nodes))
	for _, node := range nodes {
		lines[node.Node().Name] = r.LoadLine(state, node)
	}
	return lines, nil
}

// amountsByNode are amounts of usage, by window and name of the node.
type amountsByNode map[time.Duration]map[string]podusage.Amounts

// podUsages are what pods use. What is not known is left out.
type podUsages = map[live.PodResource]source.PodUsage

// measuredUsage returns what the evicted pods contribute to what each publisher's snapshot has measured of their nodes.
// It is called before the pods are removed.
func (p *Plan) measuredUsage(
	ctx context.Context, s *sim.Scheduler, models map[*load.Publisher][]*estimate.Model, known podUsages,
) (map[*load.Publisher]amountsByNode, error) {
	usage := map[*load.Publisher]amountsByNode{}
	evicted := map[*corev1.Pod]bool{}
	for _, pod := range p.evicted {
		evicted[pod] = true
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	for publisher, readers := range models {
		usage[publisher] = amountsByNode{}
		for _, m := range readers {
			if usage[publisher][m.Config().Window] == nil {
				usage[publisher][m.Config().Window] = coveredUsage(m, nodes, evicted, known)
			}
		}
	}
	return usage, nil
}

// coveredUsage returns the usage of the pods by node, as far as the model's window covers it. Measured usage replaces
// expected usage.
func coveredUsage(m *estimate.Model, nodes []fwk.NodeInfo, of map[*corev1.Pod]bool, known podUsages) map[string]podusage.Amounts {
	view, sums := m.View(framework.NewCycleState()), map[string]podusage.Amounts{}
	now := m.Config().Clock.Now()
	for _, node := range nodes {
		if !slices.ContainsFunc(node.GetPods(), func(pod fwk.PodInfo) bool { return of[pod.GetPod()] }) {
			continue
		}
		var sum podusage.Amounts
		for _, pod := range view.Pods(node) {
			if !of[pod.Pod] {
				continue
			}
			for r := range pod.Resources {
				usage := pod.Resources[r].Usage
				if u, ok := known[live.PodResource{Namespace: pod.Pod.Namespace, Pod: pod.Pod.Name, Resource: load.Resource(r)}]; ok {
					usage = u.WhileRunning(now.Sub(pod.Since))
				}
				sum[r] += usage * pod.Resources[r].Coverage
			}
		}
		sums[node.Node().Name] = sum
	}
	return sums
}

// modelsOf returns the models that plugins of the profiles read, by publisher. Models that predict by history come first, for they
// know best what a pod uses.
func modelsOf(s *sim.Scheduler, schedulerNames []string) map[*load.Publisher][]*estimate.Model {
	models := map[*load.Publisher][]*estimate.Model{}
	for _, predicts := range []bool{true, false} {
		for _, name := range schedulerNames {
			for _, r := range s.LoadReaders(name) {
				addModels(models, r.Reader(), predicts)
			}
		}
	}
	return models
}

// addModels adds the reader's models that predict by history, or the others.
func addModels(models map[*load.Publisher][]*estimate.Model, r *reading.Reader, predicts bool) {
	for resource := range load.ResourceCount {
		m := r.Model(resource)
		publisher := m.Snapshots().Publisher()
		if (r.Peak(resource) != nil) == predicts && !slices.Contains(models[publisher], m) {
			models[publisher] = append(models[publisher], m)
		}
	}
}

// publishChanged publishes the load without the usage of evicted pods, and with new nodes measured as idle. A source that has
// measured nothing stays so. Quantiles of nodes that exist stay: by how much a pod raises one does not follow from its mean usage.
func (p *Plan) publishChanged(publisher *load.Publisher, evicted amountsByNode, capacities map[string]podusage.Amounts) {
	measured := publisher.Latest()
	if measured.Index().Len() == 0 || len(p.newNodes) == 0 && len(evicted) == 0 {
		return
	}
	var added []string
	for _, object := range p.added {
		if node, ok := object.(*corev1.Node); ok {
			added = append(added, node.Name)
		}
	}
	newest := map[load.Quantile]load.NodeLoad{} // the newest measurement of any node
	publisher.Publish(measured.With(added, func(of load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
		switch {
		case p.newNodes[node]:
			return idle(newestOf(newest, measured, of))
		case of.Fraction > 0:
			return l
		}
		usage, capacity := evicted[of.Window][node], capacities[node]
		for r := range l {
			if l[r].Known && capacity[r] > 0 {
				l[r].Mean = max(l[r].Mean-usage[r]/capacity[r], 0)
			}
		}
		return l
	}))
}

// newestOf returns the newest measurement of each resource, of a quantile or, at a Fraction of 0, of the mean. It keeps
// it in known.
func newestOf(known map[load.Quantile]load.NodeLoad, s *load.Snapshot, of load.Quantile) load.NodeLoad {
	newest, ok := known[of]
	if ok {
		return newest
	}
	table := s.Over(of.Window)
	if of.Fraction > 0 {
		table = s.Quantile(of)
	}
	for row := range table.Index().Len() {
		for r, m := range table.Row(row) {
			if m.Known && (!newest[r].Known || m.End.After(newest[r].End)) {
				newest[r] = m
			}
		}
	}
	known[of] = newest
	return newest
}

// idle returns the measurement of a node that uses nothing, at the time and over the window of l.
func idle(l load.NodeLoad) load.NodeLoad {
	for r := range l {
		l[r].Mean, l[r].StdDev, l[r].Drift = 0, 0, 0
	}
	return l
}
