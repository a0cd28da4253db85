package e2e

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// beyondLease is longer than the leases of chaosConfiguration.
const beyondLease = 10 * time.Second

// chaosConfiguration returns the configuration of a replica whose one profile has the given name. Its lease is short, so that
// the other replica takes over within seconds. The stock role allows leases of the name kube-scheduler alone, in any namespace.
func chaosConfiguration(profile, namespace, plugins string) string {
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: true
  resourceName: kube-scheduler
  resourceNamespace: %s
  leaseDuration: 8s
  renewDeadline: 6s
  retryPeriod: 1s
profiles:
- schedulerName: %s%s
`, namespace, profile, plugins)
}

// allPlugins enables all of Plimsoll's plugins, which read the Prometheus at an address. metric is the query of NodeMetrics.
func allPlugins(address, metric string) string {
	return fmt.Sprintf(`
  plugins:
    multiPoint:
      enabled:
      - {name: TargetLoadPacking, weight: 5}
      - {name: LoadVariationRiskBalancing}
      - {name: LoadThreshold}
      - {name: NodeMetrics}
      - {name: PredictedPeak}
  pluginConfig:
  - name: TargetLoadPacking
    args: &source
      refreshInterval: 1s
      window: 10s
      metricProvider: {type: Prometheus, address: '%[1]s'}
  - name: LoadVariationRiskBalancing
    args: *source
  - name: LoadThreshold
    args:
      refreshInterval: 1s
      window: 10s
      metricProvider: {type: Prometheus, address: '%[1]s'}
      thresholds: {cpu: 80, memory: 90}
  - name: NodeMetrics
    args:
      refreshInterval: 1s
      window: 10s
      metricProvider: {type: Prometheus, address: '%[1]s'}
      metrics: [{name: metric, query: %[2]s, prefer: Lower, reject: "> 1e12"}]
  - name: PredictedPeak
    args:
      refreshInterval: 1s
      window: 10s
      metricProvider: {type: Prometheus, address: '%[1]s'}
      workloadLabel: chaos
      history: 10m
      minHistory: 1s
`, address, metric)
}

// TestChaos breaks parts of a cluster while pods arrive. They arrive for two replicas of Plimsoll and two of the stock scheduler.
// However the parts break, each pod is bound in the end, and only once.
func TestChaos(t *testing.T) {
	c := startChaos(t)

	killed := func(e environment, leaders []cluster.Replica) {
		for _, leader := range leaders {
			e.must(leader.Kill())
		}
		c.waitOthersLead(e, leaders)
		for _, leader := range leaders {
			e.must(leader.Start(e.ctx))
		}
	}
	// Each part starts from the state that the previous one leaves.
	t.Run("the leader is killed", func(t *testing.T) { c.burst(t, "killed", true, killed) })
	t.Run("the leader hangs, and goes on when another leads", func(t *testing.T) {
		c.burst(t, "hanging", true, func(e environment, leaders []cluster.Replica) {
			for _, leader := range leaders {
				leader.Pause()
			}
			c.waitOthersLead(e, leaders)
			for _, leader := range leaders {
				leader.Resume()
			}
			// For a while both bind pods. The API server refuses to bind a pod twice.
			for _, leader := range leaders {
				e.eventually("the replica that has hung to notice that it does not lead", func() bool { return !leads(e.ctx, leader) })
			}
		})
	})
	t.Run("nodes of odd capacity come and go, and nodes are renamed", func(t *testing.T) { c.burst(t, "nodes", true, c.changeNodes) })
	t.Run("the API server is killed and started again", func(t *testing.T) {
		c.burst(t, "apiserver", false, func(e environment, _ []cluster.Replica) {
			e.must(e.APIServer.Kill())
			e.must(e.APIServer.Start(e.ctx))
		})
	})
	t.Run("etcd hangs for longer than a lease, and is then down as long", func(t *testing.T) {
		c.burst(t, "etcd", false, func(e environment, _ []cluster.Replica) {
			e.Etcd.Pause()
			time.Sleep(beyondLease)
			e.must(e.Etcd.Kill())
			time.Sleep(beyondLease)
			e.must(e.Etcd.Start(e.ctx))
		})
	})
	t.Run("the API server hangs for longer than a lease", func(t *testing.T) {
		c.burst(t, "apihang", true, func(e environment, _ []cluster.Replica) {
			e.APIServer.Pause()
			time.Sleep(beyondLease)
			e.APIServer.Resume()
		})
	})
	t.Run("Prometheus hangs and is down, again and again", func(t *testing.T) {
		c.burst(t, "prometheus", true, func(e environment, _ []cluster.Replica) {
			for range 3 {
				e.Prometheus.Pause()
				time.Sleep(3 * time.Second)
				e.must(e.Prometheus.Kill())
				time.Sleep(3 * time.Second)
				e.must(e.Prometheus.Start(e.ctx))
			}
		})
		c.wantStatistics(c.in(t))
	})
	t.Run("there are 5,000 nodes, and the leader is killed", func(t *testing.T) {
		c.grow(c.in(t), 5000)
		c.burst(t, "large", true, killed)
	})
	t.Run("no scheduler has panicked", func(t *testing.T) {
		for name, r := range c.all {
			log := check.Value(r.Log())(t)
			t.Logf("%s was started %d times", name, strings.Count(log, "Starting Kubernetes Scheduler"))
			if i := strings.Index(log, "panic"); i >= 0 {
				t.Errorf("%s has panicked:\n%s", name, log[max(i-500, 0):min(i+5000, len(log))])
			}
		}
	})
}

// wantStatistics waits until Plimsoll's leader knows the usage of workloads, and has decided by PredictedPeak.
func (c *chaos) wantStatistics(e environment) {
	e.t.Helper()
	labels, pods := map[string]string{"chaos": "statistics"}, 0
	e.eventually("statistics of workloads, and a decision by PredictedPeak", func() bool {
		metrics, err := c.leaders(e)[0].Metrics(e.ctx)
		if err != nil || metrics.Sum("plimsoll_workloads") == 0 {
			return false
		}
		decided := metrics.Sum("plimsoll_decisions_total", "plugin", "PredictedPeak") > 0
		if !decided { // another replica leads than in the burst
			pods++
			e.must(e.CreatePods(e.ctx, tinyPod(fmt.Sprint("decided-", pods), labels)))
			check.Value(e.WaitBound(e.ctx, labels, pods))(e.t)
		}
		return decided
	})
}

const (
	stockProfile = "stock"
	// chaosNodes is the number of nodes, but for the part with many.
	chaosNodes = 20
)

type chaos struct {
	environment
	// schedulers are Plimsoll and the stock scheduler.
	schedulers [2]chaosScheduler
	// all are the running and the replaced replicas, by name.
	all      map[string]cluster.Replica
	bindings *bindings
}

type chaosScheduler struct {
	// name is that of the profile too.
	name string
	// lease is the namespace of the lease.
	lease    string
	replicas []cluster.Replica
}

func startChaos(t *testing.T) *chaos {
	t.Helper()
	e := start(t, cluster.Options{AuditLog: true})
	c := &chaos{environment: e, all: map[string]cluster.Replica{}, bindings: e.watchBindings(), schedulers: [2]chaosScheduler{
		{name: profile, lease: metav1.NamespaceDefault}, {name: stockProfile, lease: metav1.NamespaceSystem},
	}}
	share := map[string]float64{}
	for i, name := range numbered("worker", chaosNodes) {
		e.workers(worker{name: name, usage: cluster.Usage{CPU: fmt.Sprintf("%dm", 200*i), Memory: "4Gi"}})
		share[name] = float64(200*i) / 8000
	}
	check.Value(e.WaitCPUUtilization(e.ctx, cluster.Expectation{Window: 10 * time.Second, CPU: share, Tolerance: 0.05}))(e.t)
	c.runReplicas(e, "", allPlugins(e.Endpoints.Prometheus, "node_memory_working_set_bytes"))
	return c
}

// runReplicas runs two replicas of each scheduler in place of the running ones. suffix tells their names from earlier ones.
func (c *chaos) runReplicas(e environment, suffix, plugins string) {
	e.t.Helper()
	parts := [...]string{"kube-scheduler", "stock-kube-scheduler"}
	var starting errgroup.Group
	for i := range c.schedulers {
		s := &c.schedulers[i]
		for _, r := range s.replicas {
			e.must(r.Stop())
		}
		s.replicas = make([]cluster.Replica, 2)
		for j := range s.replicas {
			starting.Go(func() (err error) {
				configuration := chaosConfiguration(s.name, s.lease, "")
				if s.name == profile {
					configuration = chaosConfiguration(s.name, s.lease, plugins)
				}
				s.replicas[j], err = e.RunScheduler(e.ctx, replicaName(s.name, suffix, j), parts[i], configuration)
				return err
			})
		}
	}
	e.must(starting.Wait())
	for _, s := range c.schedulers {
		for j, r := range s.replicas {
			c.all[replicaName(s.name, suffix, j)] = r
			// A scheduler that loses its lease ends, and the kubelet starts it again.
			r.Supervise(c.ctx)
		}
	}
}

func replicaName(scheduler, suffix string, index int) string {
	return fmt.Sprintf("%s%s-%d", scheduler, suffix, index+1)
}

func (c *chaos) leaders(e environment) []cluster.Replica {
	e.t.Helper()
	var leaders []cluster.Replica
	for _, s := range c.schedulers {
		e.eventually("a replica of "+s.name+" to lead", func() bool {
			leader, ok := s.leaderBut(e.ctx, cluster.Replica{})
			if ok {
				leaders = append(leaders, leader)
			}
			return ok
		})
	}
	return leaders
}

func (c *chaos) waitOthersLead(e environment, before []cluster.Replica) {
	e.t.Helper()
	for i, s := range c.schedulers {
		e.eventually("another replica of "+s.name+" to lead", func() bool {
			_, ok := s.leaderBut(e.ctx, before[i])
			return ok
		})
	}
}

// leaderBut returns the replica that leads, which is not the given one.
func (s chaosScheduler) leaderBut(ctx context.Context, other cluster.Replica) (cluster.Replica, bool) {
	for _, r := range s.replicas {
		if r.Process != other.Process && leads(ctx, r) {
			return r, true
		}
	}
	return cluster.Replica{}, false
}

// leads reports whether the replica holds its lease. One that does not respond does not lead.
func leads(ctx context.Context, r cluster.Replica) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	metrics, err := r.Metrics(ctx)
	return err == nil && metrics.Sum("leader_election_master_status") == 1
}

// changeNodes adds, removes and renames nodes, some of them of odd capacity.
func (c *chaos) changeNodes(e environment, _ []cluster.Replica) {
	e.t.Helper()
	const huge = "9223372036854775807"
	type list = map[corev1.ResourceName]string
	odd := map[string]corev1.NodeStatus{}
	for name, size := range map[string]struct{ capacity, allocatable list }{
		"no-cpu":            {list{"cpu": "0", "memory": "32Gi", "pods": "250"}, nil},
		"no-memory":         {list{"cpu": "8", "memory": "0", "pods": "250"}, nil},
		"cpu-unknown":       {list{"memory": "32Gi", "pods": "250"}, nil},
		"nothing-known":     {nil, nil},
		"none-allocatable":  {list{"cpu": "8", "memory": "32Gi", "pods": "250"}, list{"cpu": "0", "memory": "0", "pods": "250"}},
		"allocatable-twice": {list{"cpu": "8", "memory": "32Gi", "pods": "250"}, list{"cpu": "16", "memory": "64Gi", "pods": "250"}},
		"only-allocatable":  {nil, list{"cpu": "8", "memory": "32Gi", "pods": "250"}},
		"tiny":              {list{"cpu": "1m", "memory": "1", "pods": "250"}, nil},
		"huge":              {list{"cpu": huge, "memory": huge, "pods": "250"}, nil},
		"exa":               {list{"cpu": "1E", "memory": "1E", "pods": "250"}, nil},
	} {
		if size.allocatable == nil {
			size.allocatable = size.capacity
		}
		odd[name] = corev1.NodeStatus{Capacity: quantities(size.capacity), Allocatable: quantities(size.allocatable)}
	}
	for name, status := range odd {
		e.must(e.createNode(name, status))
		e.must(e.SetLoad(e.ctx, name, cluster.Load{Usage: cluster.Usage{CPU: "500m", Memory: "1Gi"}}))
	}
	usual := corev1.NodeStatus{Capacity: quantities(list{"cpu": "8", "memory": "32Gi", "pods": "250"})}
	nodes := e.Client.CoreV1().Nodes()
	for i, name := range numbered("passing", 20) {
		e.must(e.createNode(name, usual))
		if i%2 == 0 {
			e.must(nodes.Delete(e.ctx, name, metav1.DeleteOptions{}))
			e.must(e.createNode(name+"-renamed", usual))
		}
		time.Sleep(200 * time.Millisecond) // so that pods arrive in between
		e.must(e.AnnotateNode(e.ctx, "worker-001", "plimsoll.io/thresholds", fmt.Sprintf("cpu=%d", 50+i)))
	}
	for name := range odd {
		e.must(nodes.Delete(e.ctx, name, metav1.DeleteOptions{}))
	}
}

func quantities(list map[corev1.ResourceName]string) corev1.ResourceList {
	parsed := corev1.ResourceList{}
	for name, text := range list {
		parsed[name] = resource.MustParse(text)
	}
	return parsed
}

func (e environment) createNode(name string, status corev1.NodeStatus) error {
	status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err := e.Client.CoreV1().Nodes().Create(e.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: host(name)}, Status: status,
	}, metav1.CreateOptions{})
	return err
}

// createNodes creates nodes of 8 cores and 32Gi, several at once.
func (e environment) createNodes(names []string) {
	e.t.Helper()
	var creating errgroup.Group
	creating.SetLimit(16)
	for _, name := range names {
		creating.Go(func() error {
			return e.createNode(name, corev1.NodeStatus{
				Capacity: quantities(map[corev1.ResourceName]string{"cpu": "8", "memory": "32Gi", "pods": "250"}),
			})
		})
	}
	e.must(creating.Wait())
}

// grow makes the cluster one of n nodes whose load is known. Scraping so many would take this machine from the schedulers, so a
// stub responds in place of Prometheus.
func (c *chaos) grow(e environment, n int) {
	e.t.Helper()
	began := time.Now()
	e.must(e.Prometheus.Stop())
	names := numbered("many", n)
	e.createNodes(names)
	created := time.Since(began)
	stub := &promstub.Server{Gzip: true}
	stub.SetInstances(names)
	server := httptest.NewServer(stub)
	c.t.Cleanup(server.Close)
	c.runReplicas(e, "-large", allPlugins(server.URL, promstub.Metric))
	e.t.Logf("%d nodes were created in %.1f s, and schedulers ready %.1f s after that", n, created.Seconds(),
		(time.Since(began) - created).Seconds())
}
