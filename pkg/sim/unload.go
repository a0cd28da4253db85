package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// LeavingUsage is what pods contribute to the measured load of their nodes. The load without it is that after the pods have been
// gone for a whole window.
type LeavingUsage struct {
	// Estimated reports whether the usage of a pod is not measured, but estimated.
	Estimated bool
	// shares are fractions of the capacity, by window and name of the node.
	shares map[*load.Publisher]map[time.Duration]map[string]podusage.Amounts
}

// PodResource is one resource of a pod.
type PodResource struct {
	Namespace, Pod string
	Resource       load.Resource
}

// MeasuredUsage is the measured usage of pods. It lacks pods that are not measured.
type MeasuredUsage = map[PodResource]source.PodUsage

// LeavingUsageOf returns the usage of the pods. Unmeasured usage is estimated by the models of the profiles' plugins. Call it
// before the pods are removed.
func (s *Scheduler) LeavingUsageOf(
	ctx context.Context, schedulerNames []string, pods []*corev1.Pod, measured MeasuredUsage,
) (*LeavingUsage, error) {
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	leaving, left := map[types.UID]bool{}, map[string]bool{}
	for _, pod := range pods {
		leaving[pod.UID], left[pod.Spec.NodeName] = true, true
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return !left[node.Node().Name] })
	u := &LeavingUsage{shares: map[*load.Publisher]map[time.Duration]map[string]podusage.Amounts{}}
	for publisher, models := range s.modelsOf(schedulerNames) {
		byWindow := map[time.Duration]map[string]podusage.Amounts{}
		for _, m := range models {
			if window := m.Config().Window; byWindow[window] == nil {
				byWindow[window] = u.covered(m, publisher.Latest().Over(window), nodes, leaving, measured)
			}
		}
		u.shares[publisher] = byWindow
	}
	return u, nil
}

// covered returns the pods' share of each node's load, as far as the model's window covers them.
func (u *LeavingUsage) covered(
	m *estimate.Model, table *load.Table, nodes []fwk.NodeInfo, leaving map[types.UID]bool, measured MeasuredUsage,
) map[string]podusage.Amounts {
	view, shares := m.View(framework.NewCycleState()), map[string]podusage.Amounts{}
	for _, node := range nodes {
		capacity, known := podusage.CapacityOf(node.Node()).Amounts, table.Node(node.Node().Name)
		var share podusage.Amounts
		for _, pod := range view.Pods(node) {
			if !leaving[pod.Pod.UID] {
				continue
			}
			for r, of := range pod.Resources {
				if !known[r].Known || capacity[r] == 0 {
					continue
				}
				present, ok := measured[PodResource{Namespace: pod.Pod.Namespace, Pod: pod.Pod.Name, Resource: load.Resource(r)}]
				if ok {
					of.Usage = present.Usage
				}
				u.Estimated = u.Estimated || !ok && of.Coverage > 0
				share[r] += of.Usage * of.Coverage / capacity[r]
			}
		}
		shares[node.Node().Name] = share
	}
	return shares
}

// Publishers returns the publishers of the load that the plugins read.
func (u *LeavingUsage) Publishers() []*load.Publisher { return slices.Collect(maps.Keys(u.shares)) }

// Subtract returns the node's load without the usage. Quantiles stay: a mean usage does not tell how much a pod raises them.
func (u *LeavingUsage) Subtract(from *load.Publisher, of load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
	if of.Fraction > 0 {
		return l
	}
	share := u.shares[from][of.Window][node]
	for r := range l {
		l[r].Mean = max(l[r].Mean-share[r], 0)
	}
	return l
}

// Publish publishes the load of all nodes without the usage. Call restore to publish the load that was there before.
func (u *LeavingUsage) Publish() (restore func()) {
	before := map[*load.Publisher]*load.Snapshot{}
	for publisher := range u.shares {
		measured := publisher.Latest()
		before[publisher] = measured
		publisher.Publish(measured.With(nil, func(of load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
			return u.Subtract(publisher, of, node, l)
		}))
	}
	return func() {
		for publisher, measured := range before {
			publisher.Publish(measured)
		}
	}
}

// modelsOf returns the models of means that plugins of the profiles read, by publisher. A publisher of quantiles alone has none.
// Models that predict by history come first, for they know best what a pod uses.
func (s *Scheduler) modelsOf(schedulerNames []string) map[*load.Publisher][]*estimate.Model {
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

// addModels adds the reader's models that predict by history, or the others. It leaves out those of quantiles, which cover a pod
// later than means do.
func addModels(models map[*load.Publisher][]*estimate.Model, r *reading.Reader, predicts bool) {
	for resource := range load.ResourceCount {
		m := r.Model(resource)
		publisher := m.Snapshots().Publisher()
		of := models[publisher]
		if m.Config().Fraction == 0 && (r.Peak(resource) != nil) == predicts && !slices.Contains(of, m) {
			of = append(of, m)
		}
		models[publisher] = of
	}
}
