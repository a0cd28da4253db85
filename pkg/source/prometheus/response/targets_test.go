package response

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// A cluster of four nodes n0 to n3 with the addresses 10.0.0.0 to 10.0.0.3. The address of a pod on a node ends as the node's does.
const nodeCount = 4

func testMatcher(t testing.TB) *Matcher {
	t.Helper()
	var nodes []*corev1.Node
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for i := range nodeCount {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", i)}}
		nodes = append(nodes, node)
		for _, namespace := range []string{"a", "monitoring", "tenant", "zoo", "system", "trusted"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("exporter-%d", i)}}
			pod.Spec.NodeName, pod.Spec.HostNetwork = node.Name, namespace == "system" || namespace == "trusted"
			pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.8.0.%d", i)}}
			if pod.Spec.HostNetwork {
				pod.Status.PodIPs[0].IP = node.Status.Addresses[0].Address
			}
			if err := pods.Add(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	labels := []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname"}
	return NewMatcher(nodes, corelisters.NewPodLister(pods), labels, func(text string) string { return text })
}

type labels = map[string]string

// with returns labels and further ones.
func with(base, more labels) labels {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// onPods are the targets of an exporter with one pod on each node, in the network of pods.
func onPods(namespace, service string) func(int) labels {
	return func(i int) labels {
		return labels{"job": service, "namespace": namespace, "service": service, "pod": fmt.Sprintf("exporter-%d", i),
			"instance": fmt.Sprintf("10.8.0.%d:9100", i), "node": fmt.Sprintf("n%d", i)}
	}
}

// onHosts are the targets of an exporter with one pod on each node, in the network of nodes.
func onHosts(namespace, service string) func(int) labels {
	return func(i int) labels {
		return labels{"job": service, "namespace": namespace, "service": service, "pod": fmt.Sprintf("exporter-%d", i),
			"instance": fmt.Sprintf("10.0.0.%d:9100", i)}
	}
}

// nodePorts are the targets of a tenant's EndpointSlice with the nodes' addresses and the node port of the tenant's Service.
func nodePorts(namespace string) func(int) labels {
	return func(i int) labels {
		return labels{"job": "a", "namespace": namespace, "service": "a", "instance": fmt.Sprintf("10.0.0.%d:30000", i)}
	}
}

// kubelets are the targets of the kubelet's ServiceMonitor. They have no label pod.
func kubelets(i int) labels {
	return labels{"job": "kubelet", "namespace": "kube-system", "service": "kubelet", "node": fmt.Sprintf("n%d", i),
		"instance": fmt.Sprintf("10.0.0.%d:10250", i)}
}

// oneTarget is one pod of a namespace on n3 that writes the label node itself.
func oneTarget(namespace, service string) func(int) labels {
	return func(i int) labels { return with(onPods(namespace, service)(3), labels{"node": fmt.Sprintf("n%d", i)}) }
}

// fixed is the same target for each node, with the label node.
func fixed(base labels) func(int) labels {
	return func(i int) labels { return with(base, labels{"node": fmt.Sprintf("n%d", i)}) }
}

type series struct {
	labels labels
	value  float64
}

// of returns a series of a value for each of some nodes.
func of(target func(int) labels, value float64, nodes ...int) (all []series) {
	for _, i := range nodes {
		all = append(all, series{target(i), value})
	}
	return all
}

func answer(m *Matcher, inUse InUse, all []series) *Result {
	r := &Result{Query: &promql.Query{Dialect: promql.NodeExporter}, Values: make([]Value, len(m.Nodes))}
	var c claims
	for _, s := range all {
		r.add(m, &c, &Series[map[string]string]{Metric: s.labels, Value: Point{Value: s.value}})
	}
	r.settle(&c, inUse)
	return r
}

// honest is the value of every honest series, and forged that of a tenant's, which is greater.
const honest, forged = 0.2, 0.9

var everyNode = []int{0, 1, 2, 3}

// Honest setups as Prometheus and compatible servers return them, reduced to the labels that queries keep. Each measures all nodes.
func honestSetups() map[string][]series {
	return map[string][]series{
		"node_exporter in the network of nodes": of(onHosts("monitoring", "node-exporter"), honest, everyNode...),
		"node_exporter in the network of pods":  of(onPods("monitoring", "node-exporter"), honest, everyNode...),
		"the kubelet":                           of(kubelets, honest, everyNode...),
		"cAdvisor through the API server": of(func(i int) labels {
			return labels{"job": "kubernetes-nodes-cadvisor", "instance": fmt.Sprintf("n%d", i)}
		}, honest, everyNode...),
		"rules of kube-prometheus": of(onHosts("monitoring", "node-exporter"), honest, everyNode...),
		"OpenShift": of(func(i int) labels {
			return labels{"job": "node-exporter", "namespace": "openshift-monitoring", "service": "node-exporter",
				"pod": fmt.Sprintf("node-exporter-x%d", i), "instance": fmt.Sprintf("n%d", i)}
		}, honest, everyNode...),
		"VictoriaMetrics": of(func(i int) labels {
			return labels{"job": "node-exporter", "namespace": "monitoring", "pod": fmt.Sprintf("exporter-%d", i),
				"instance": fmt.Sprintf("10.0.0.%d:9100", i), "node": fmt.Sprintf("n%d", i)}
		}, honest, everyNode...),
		"an exporter by address and by host name": slices.Concat(of(onHosts("monitoring", "node-exporter"), honest, everyNode...),
			of(func(i int) labels {
				return with(onHosts("monitoring", "node-exporter")(i), labels{"instance": fmt.Sprintf("n%d:9100", i)})
			}, honest, everyNode...)),
		"rules without a target": of(fixed(labels{}), honest, everyNode...),
		"an OpenTelemetry collector that writes": of(fixed(labels{"job": "monitoring/otel-collector"}), honest,
			everyNode...),
		"an OpenTelemetry collector that is scraped": of(fixed(labels{"job": "otel", "instance": "10.8.0.99:8889"}), honest,
			everyNode...),
		// Thanos returns the series of two clusters' or replicas' Prometheus; reduced, they are as one.
		"Thanos": slices.Concat(of(onHosts("monitoring", "node-exporter"), honest, everyNode...),
			of(onHosts("monitoring", "node-exporter"), honest, everyNode...)),
		"two pools with exporters of two releases": slices.Concat(of(onHosts("monitoring", "a"), honest, 0, 1),
			of(onPods("monitoring", "b"), honest, 2, 3)),
		"a static list of virtual machines beside pods": slices.Concat(of(onPods("monitoring", "node-exporter"), honest, 0, 1, 2),
			of(func(int) labels { return labels{"job": "vms", "instance": "vm3.example.com:9100", "node": "n3"} }, honest, 3)),
	}
}

func TestSettle_HonestSetupsLoseNothing(t *testing.T) {
	for name, all := range honestSetups() {
		t.Run(name, func(t *testing.T) {
			r := answer(testMatcher(t), nil, all)
			for i, v := range r.Values {
				if !v.Known || v.Value != honest {
					t.Errorf("n%d has %+v, want %v", i, v, honest)
				}
			}
			if r.Nodes != nodeCount || r.Contested != 0 || r.Conflict != nil {
				t.Errorf("%d nodes, %d contested, %v; want 4 and none", r.Nodes, r.Contested, r.Conflict)
			}
		})
	}
}

// Without pods, the address of a target in the network of pods shows nothing. Its values still count.
func TestSettle_WithoutPods(t *testing.T) {
	m := testMatcher(t)
	m.Pods = nil
	for name, all := range honestSetups() {
		if r := answer(m, nil, all); r.Nodes != nodeCount {
			t.Errorf("%s: %d nodes, want 4", name, r.Nodes)
		}
	}
}

// manySets are as many target sets of a tenant's pods, each on one node.
func manySets(sets int) (all []series) {
	for i := range sets {
		all = append(all, series{with(onPods("tenant", "a")(i%nodeCount), labels{"job": fmt.Sprintf("a%d", i)}), forged})
	}
	return all
}

// TestSettle_FlippingSet has a set of more nodes come and go. The one in use stays.
func TestSettle_FlippingSet(t *testing.T) {
	m := testMatcher(t)
	exporter := of(onPods("monitoring", "node-exporter"), honest, 0, 1, 2)
	var inUse InUse
	for i := range 6 {
		all := exporter
		if i%2 == 1 {
			all = slices.Concat(of(onPods("tenant", "a"), forged, everyNode...), exporter)
		}
		r := answer(m, inUse, all)
		for _, v := range r.Values[:3] {
			if v.Value != honest {
				t.Errorf("refresh %d: %+v, want the exporter's value", i, v)
			}
		}
		inUse = inUse.Next([]*Result{r})
	}
}

// TestSettle_PodOnHostCountsInItsSet has relabeled node ports in the set of an exporter with pods in the network of nodes.
func TestSettle_PodOnHostCountsInItsSet(t *testing.T) {
	exporter := of(onHosts("system", "node-exporter"), honest, everyNode...)
	ports := of(func(i int) labels {
		return labels{"job": "node-exporter", "namespace": "system", "service": "node-exporter", "node": fmt.Sprintf("n%d", i),
			"instance": fmt.Sprintf("10.0.0.%d:30000", i)}
	}, forged, everyNode...)
	for _, all := range [][]series{slices.Concat(exporter, ports), slices.Concat(ports, exporter)} {
		for i, v := range answer(testMatcher(t), nil, all).Values {
			if v.Value != honest {
				t.Errorf("n%d has %v, want the exporter's", i, v.Value)
			}
		}
	}
}

// TestSettle_Rollout has the pods of an exporter replaced: Prometheus still has series of the ended ones.
func TestSettle_Rollout(t *testing.T) {
	target := onPods("monitoring", "node-exporter")
	now := of(target, honest, everyNode...)
	ended := of(func(i int) labels { return with(target(i), labels{"pod": fmt.Sprintf("ended-%d", i)}) }, forged, everyNode...)
	elsewhere := of(func(i int) labels { return with(target((i+1)%nodeCount), labels{"node": fmt.Sprintf("n%d", i)}) }, forged, everyNode...)
	for _, tt := range []struct {
		name      string
		others    []series
		contested int
	}{
		{"ended pods", ended, 0},
		{"running pods of other nodes", elsewhere, 4},
		{"ended pods of another set", of(func(i int) labels {
			return with(onPods("tenant", "a")(i), labels{"pod": "ended"})
		}, forged, 0, 1), 2},
		{"ended pods, and a tenant's on n3", slices.Concat(ended, of(onPods("tenant", "a"), forged, 3)), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := answer(testMatcher(t), nil, slices.Concat(tt.others, now))
			for i, v := range r.Values {
				if v.Value != honest {
					t.Errorf("n%d has %v, want that of its present pod", i, v.Value)
				}
			}
			if r.Contested != tt.contested || (r.Conflict != nil) != (tt.contested > 0) {
				t.Errorf("%d contested, conflict %v; want %d", r.Contested, r.Conflict, tt.contested)
			}
		})
	}
}

func TestSettle_Attackers(t *testing.T) {
	exporter := of(onPods("monitoring", "node-exporter"), honest, everyNode...)
	used := InUse{FamilyOf(&promql.Query{Dialect: promql.NodeExporter}): {{Job: "node-exporter", Namespace: "monitoring",
		Service: "node-exporter"}}}
	// Pods of the namespace system are in the network of their node.
	onNodes := of(onHosts("system", "node-exporter"), honest, everyNode...)
	kubelet := of(kubelets, honest, everyNode...)
	taken := InUse{FamilyOf(&promql.Query{Dialect: promql.NodeExporter}): {{Job: "a", Namespace: "tenant", Service: "a"}}}
	portsTaken := InUse{FamilyOf(&promql.Query{Dialect: promql.NodeExporter}): {{Job: "a", Namespace: "a", Service: "a"}}}
	for _, tt := range []struct {
		name           string
		honest, forged []series
		inUse          InUse
		// stolen are the nodes with the forged value, contested the nodes that both name.
		stolen    []int
		contested int
	}{
		{"a target that names all nodes", exporter, of(oneTarget("tenant", "a"), forged, everyNode...), nil, nil, 4},
		{"a service of the exporter's name", exporter, of(oneTarget("tenant", "node-exporter"), forged, everyNode...), nil, nil, 4},
		{"a target that names its node", exporter, of(onPods("tenant", "a"), forged, 3), nil, nil, 1},
		{"a label of later rank", exporter, []series{{with(onPods("tenant", "a")(3), labels{"node": "", "hostname": "n1"}), forged}},
			nil, nil, 1},
		{"more series", exporter, slices.Concat(of(oneTarget("tenant", "a"), forged, everyNode...),
			of(func(i int) labels { return with(oneTarget("tenant", "a")(i), labels{"hostname": "x"}) }, forged, everyNode...)),
			nil, nil, 4},
		{"another pod's labels by honor_labels", exporter, of(func(i int) labels {
			return with(onPods("monitoring", "a")(i), labels{"pod": "exporter-3"})
		}, forged, 0, 1, 2), nil, nil, 3},
		// As in jobs whose targets have no label of that name. The pods that are named are in the network of their node.
		{"labels of others' pods that the target writes", of(func(i int) labels {
			return labels{"job": "node", "instance": fmt.Sprintf("10.0.0.%d:9100", i)}
		}, honest, everyNode...), of(func(i int) labels {
			return labels{"job": "a", "instance": "10.8.0.9:80", "namespace": "system", "pod": fmt.Sprintf("exporter-%d", i),
				"node": fmt.Sprintf("n%d", i)}
		}, forged, everyNode...), nil, nil, 4},
		{"pods on half of the nodes", exporter, of(onPods("tenant", "a"), forged, 0, 1), nil, nil, 2},
		{"as many pods, later", exporter, of(onPods("tenant", "a"), forged, everyNode...), used, nil, 4},
		{"as many pods, while the exporter is down on half", exporter[:2], of(onPods("tenant", "a"), forged, everyNode...), used,
			[]int{2, 3}, 2},
		{"a target beside rules without one, on its node", of(fixed(labels{}), honest, everyNode...),
			of(oneTarget("tenant", "a"), forged, everyNode...), nil, []int{3}, 4},
		{"ten thousand sets", exporter, manySets(10_000), nil, nil, 4},
		{"a label of 1 MiB", exporter, of(fixed(labels{"job": strings.Repeat("a", 1<<20), "instance": "10.8.0.9:9100"}), forged, everyNode...),
			nil, nil, 4},
		{"not a number", exporter, of(onPods("tenant", "a"), math.NaN(), 0, 1), nil, nil, 2},
		{"two sets on half of the nodes each", exporter, slices.Concat(of(onPods("tenant", "a"), forged, 0, 1),
			of(onPods("tenant", "b"), forged, 2, 3)), nil, nil, 4},
		{"node ports at the start", onNodes, of(nodePorts("a"), forged, everyNode...), nil, nil, 4},
		{"node ports on more nodes at the start", onNodes[:2], of(nodePorts("a"), forged, everyNode...), nil, []int{2, 3}, 2},
		{"node ports that are in use", onNodes, of(nodePorts("a"), forged, everyNode...), portsTaken, nil, 4},
		{"node ports after a rollout of the exporter", slices.Concat(of(func(i int) labels {
			return with(onHosts("system", "node-exporter")(i), labels{"pod": "ended"})
		}, honest, everyNode...), onNodes), of(nodePorts("a"), forged, everyNode...), portsTaken, nil, 4},
		{"pods that are in use", onNodes, of(onPods("tenant", "a"), forged, everyNode...), taken, nil, 4},
		{"pods in the network of few nodes", kubelet, of(onHosts("trusted", "a"), forged, 3), nil, nil, 1},
		{"pods in the network of few nodes and pods of others", onNodes, of(onHosts("trusted", "a"), forged, 3), nil, nil, 1},
		{"a pod on each node beside the kubelet at the start", kubelet, of(onPods("a", "a"), forged, everyNode...), nil, nil, 4},
		{"pods on more nodes than the kubelet at the start", kubelet[:3], of(onPods("a", "a"), forged, everyNode...), nil, []int{3}, 3},
		{"pods that are in use, beside the kubelet", kubelet, of(onPods("tenant", "a"), forged, everyNode...), taken, nil, 4},
		{"node ports beside the kubelet at the start", kubelet, of(nodePorts("a"), forged, everyNode...), nil, nil, 4},
		{"node ports in use, beside the kubelet", kubelet, of(nodePorts("a"), forged, everyNode...), portsTaken, nil, 4},
		{"pods elsewhere with the addresses of nodes, in an EndpointSlice", kubelet, of(func(i int) labels {
			return with(nodePorts("a")(i), labels{"instance": fmt.Sprintf("10.0.0.%d:80", i), "pod": fmt.Sprintf("exporter-%d", (i+1)%nodeCount)})
		}, forged, everyNode...), nil, nil, 4},
		{"pods at the addresses of their nodes, beside the kubelet", kubelet, of(func(i int) labels {
			return with(onPods("a", "a")(i), labels{"instance": fmt.Sprintf("n%d", i)})
		}, forged, everyNode...), nil, nil, 4},
		{"pods elsewhere that are called as nodes, and whose instance is their name", kubelet, of(func(i int) labels {
			return labels{"job": "a", "namespace": "a", "pod": fmt.Sprintf("n%d", (i+1)%nodeCount), "instance": fmt.Sprintf("n%d", (i+1)%nodeCount)}
		}, forged, everyNode...), nil, nil, 4},
		{"ended pods that are called as nodes, at any port", exporter, slices.Concat(
			of(func(int) labels { return labels{"job": "a", "namespace": "a", "pod": "n0", "instance": "n0:metrics"} }, forged, 0),
			of(func(int) labels { return labels{"job": "a", "namespace": "a", "pod": "n1", "instance": "n1:8080"} }, forged, 1),
		), used, nil, 2},
		{"an EndpointSlice with the nodes' addresses, beside pods in use", exporter, of(func(i int) labels {
			return with(nodePorts("a")(i), labels{"instance": fmt.Sprintf("10.0.0.%d:80", i)})
		}, forged, everyNode...), used, everyNode, 4},
		{"pods on each node while most kubelets are down", kubelet[:1], of(onPods("a", "a"), forged, everyNode...), nil, []int{1, 2, 3}, 1},
		{"pods on more nodes than the exporter of a pool", slices.Concat(onNodes[:3], of(onHosts("trusted", "b"), honest, 3)),
			of(onPods("a", "a"), forged, 0, 3), nil, nil, 2},
		{"pods on more nodes than the exporter of each pool", slices.Concat(onNodes[:1], of(onHosts("trusted", "b"), honest, 1), kubelet[2:]),
			of(onPods("a", "a"), forged, everyNode...), nil, nil, 4},
		{"pods that are in use, on more nodes than the exporter of each pool",
			slices.Concat(onNodes[:1], of(onHosts("trusted", "b"), honest, 1), kubelet[2:]),
			of(onPods("tenant", "a"), forged, everyNode...), taken, nil, 4},
		// What remains of node ports: an exporter in the network of pods has no more to show. The set that sorts first counts.
		{"node ports beside pods at the start", exporter, of(nodePorts("a"), forged, everyNode...), nil, everyNode, 4},
		{"node ports beside pods, later", exporter, of(nodePorts("a"), forged, everyNode...), used, nil, 4},
		// What remains where no selector is set: nothing tells these pods from an exporter's. The set that sorts first counts.
		{"as many pods at the start", exporter, of(onPods("zoo", "a"), forged, everyNode...), nil, nil, 4},
		{"pods on more nodes at the start", exporter[:3], of(onPods("tenant", "a"), forged, everyNode...), nil, everyNode, 3},
		{"pods on more nodes, later", exporter[:3], of(onPods("tenant", "a"), forged, everyNode...), used, []int{3}, 3},
	} {
		orders := map[string][]series{
			"last": slices.Concat(tt.honest, tt.forged), "first": slices.Concat(tt.forged, tt.honest),
		}
		for order, all := range orders {
			t.Run(tt.name+", "+order, func(t *testing.T) {
				r := answer(testMatcher(t), tt.inUse, all)
				var stolen []int
				for i, v := range r.Values {
					if v.Value != honest {
						stolen = append(stolen, i)
					}
				}
				if !slices.Equal(stolen, tt.stolen) {
					t.Errorf("nodes %v have the forged value, want %v", stolen, tt.stolen)
				}
				if r.Contested != tt.contested || r.Conflict == nil {
					t.Errorf("%d contested, conflict %v, want %d", r.Contested, r.Conflict, tt.contested)
				} else if tenants := []string{"a", "tenant", "zoo"}; slices.Contains(tenants, r.Conflict.Used.Namespace) && !r.Conflict.Ambiguous() {
					t.Errorf("conflict %v: nothing says that the set used may be a tenant's", r.Conflict)
				}
			})
		}
	}
}

// FuzzSettle adds any series of other namespaces, before and after those of exporters that name all nodes. Their values must stay.
func FuzzSettle(f *testing.F) {
	f.Add([]byte{3, 1, 0, 0, 1}, []byte{0, 2, 3, 1, 0, 1, 0, 4, 2, 2})
	exporter := of(onPods("monitoring", "node-exporter"), honest, everyNode...)
	used := InUse{FamilyOf(&promql.Query{Dialect: promql.NodeExporter}): {{Job: "node-exporter", Namespace: "monitoring",
		Service: "node-exporter"}}}
	pools := slices.Concat(of(onPods("monitoring", "node-exporter"), honest, 0, 1), of(onPods("a", "b"), honest, 2, 3))
	poolsUsed := InUse{FamilyOf(&promql.Query{Dialect: promql.NodeExporter}): {
		{Job: "node-exporter", Namespace: "monitoring", Service: "node-exporter"}, {Job: "b", Namespace: "a", Service: "b"},
	}}
	m := testMatcher(f)
	// Each series takes five bytes: node, instance, pod, namespace and job. In the exporter's namespace the pod has ended.
	decode := func(data []byte, instances func(node int) []string) (all []series) {
		for ; len(data) >= 5; data = data[5:] {
			node, instance, pod := data[0]%nodeCount, data[1], data[2]
			target := labels{
				"node":      fmt.Sprintf("n%d", node),
				"instance":  instances(int(instance / 4 % nodeCount))[instance%4],
				"pod":       []string{"", fmt.Sprintf("exporter-%d", pod/2%nodeCount)}[pod%2],
				"namespace": []string{"tenant", "zoo", "", "monitoring"}[data[3]%4],
				"job":       []string{"node-exporter", "a", ""}[data[4]%3],
				"service":   "node-exporter",
			}
			if target["namespace"] == "monitoring" {
				target["pod"], target["instance"] = "ended", "10.8.0.9:9100"
			}
			all = append(all, series{target, forged})
		}
		return all
	}
	anyTarget := func(node int) []string {
		return []string{"", fmt.Sprintf("10.0.0.%d:9100", node), "10.8.0.9:9100", "n1"}
	}
	// Without a target in the network of nodes, which takes a hostPort or the label instance.
	podOrNodePort := func(node int) []string {
		return []string{fmt.Sprintf("10.0.0.%d:30000", node), fmt.Sprintf("10.8.0.%d:9100", node), "10.8.0.9:9100", ""}
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		for _, tt := range []struct {
			exporter  []series
			inUse     InUse
			instances func(node int) []string
		}{
			{exporter, used, podOrNodePort},
			{pools, poolsUsed, podOrNodePort},
			// These need not be in use.
			{of(kubelets, honest, everyNode...), nil, podOrNodePort},
			{of(onHosts("system", "node-exporter"), honest, everyNode...), nil, anyTarget},
			{slices.Concat(of(onHosts("system", "node-exporter"), honest, 0), of(onHosts("trusted", "b"), honest, 1), of(kubelets, honest, 2, 3)),
				nil, podOrNodePort},
		} {
			others := slices.Concat(decode(before, tt.instances), decode(after, tt.instances))
			all := slices.Concat(decode(before, tt.instances), tt.exporter, decode(after, tt.instances))
			r := answer(m, tt.inUse, all)
			for i, v := range r.Values {
				if v.Value != honest {
					t.Errorf("node %d has %v, want the exporter's value, of %v", i, v.Value, all)
				}
			}
			// Ended pods of the set used contest nothing, and all other series do.
			contested := map[string]bool{}
			for _, s := range others {
				node := s.labels["node"]
				set := *r.Values[node[1]-'0'].Set
				contested[node] = contested[node] || s.labels["pod"] != "ended" || LabelsOf(s.labels) != set.labels()
			}
			count := 0
			for _, is := range contested {
				if is {
					count++
				}
			}
			if r.Contested != count {
				t.Errorf("%d contested, want %d of %v", r.Contested, count, all)
			}
		}
	})
}

func TestInUse_Next(t *testing.T) {
	m, q := testMatcher(t), &promql.Query{Dialect: promql.NodeExporter}
	// named returns the target set of a namespace's exporter.
	named := func(namespace string) TargetSet {
		return TargetSet{Job: "node-exporter", Namespace: namespace, Service: "node-exporter"}
	}
	on := func(namespace string, nodes ...int) []series {
		return of(onPods(namespace, "node-exporter"), honest, nodes...)
	}
	check := func(what string, got InUse, want ...TargetSet) {
		t.Helper()
		if !slices.Equal(got[FamilyOf(q)], want) {
			t.Errorf("%s: %v in use, want %v", what, got[FamilyOf(q)], want)
		}
	}
	first := InUse{}.Next([]*Result{answer(m, nil, slices.Concat(on("monitoring", 0, 1), on("a", 2), on("tenant", 0)))})
	check("a set that adds no node is not in use", first, named("monitoring"), named("a"))
	second := first.Next([]*Result{answer(m, first, slices.Concat(on("tenant", everyNode...), on("a", 2)))})
	check("an absent set keeps its place", second, named("monitoring"), named("a"), named("tenant"))
	check("a query that fails", first.Next([]*Result{{Query: q}}), named("monitoring"), named("a"))
	if got := first.Next(nil); len(got) != 0 {
		t.Errorf("%v is in use without a query", got)
	}
	var many []series
	for i := range nodeCount {
		many = append(many, series{with(onPods("tenant", "a")(i), labels{"job": fmt.Sprintf("a%d", i)}), forged})
	}
	inUse := second
	for range 3 {
		inUse = inUse.Next([]*Result{answer(m, inUse, many)})
		for i := range many {
			many[i].labels["job"] += "x"
		}
	}
	if sets := inUse[FamilyOf(q)]; len(sets) != maxInUse || sets[0] != named("monitoring") {
		t.Errorf("%v in use, want %d, the first one first", sets, maxInUse)
	}
}

// TestSettle_NodeWithAddressesOfOthers has n3 write the address of n0 into its own status.
func TestSettle_NodeWithAddressesOfOthers(t *testing.T) {
	m := testMatcher(t)
	rogue := m.Nodes[3]
	rogue.Status.Addresses = append(rogue.Status.Addresses, m.Nodes[0].Status.Addresses...)
	m = NewMatcher(m.Nodes, m.Pods, m.labels, m.excerpt)
	byAddress := of(onHosts("system", "node-exporter"), honest, everyNode...)
	byName := of(kubelets, honest, everyNode...)
	for _, tt := range []struct {
		name string
		all  []series
		// n0 and n3 are the values wanted; 0 for none.
		n0, n3 float64
	}{
		{"series by address alone", byAddress, 0, honest},
		{"series by name", byName, honest, honest},
		{"series by name, and a tenant's pods on n0 and n3", slices.Concat(byName, of(onPods("tenant", "a"), forged, 0, 3)), forged, honest},
	} {
		r := answer(m, nil, tt.all)
		if got := r.Values[0]; got.Value != tt.n0 || got.Known != (tt.n0 > 0) {
			t.Errorf("%s: n0 has %+v, want %v", tt.name, got, tt.n0)
		}
		if got := r.Values[3]; got.Value != tt.n3 {
			t.Errorf("%s: n3 has %+v, want %v", tt.name, got, tt.n3)
		}
	}
}

// TestSettle_SetsInUse has two pools, n0 and n1, and n2 and n3. Their exporters are used before a tenant's pods.
func TestSettle_SetsInUse(t *testing.T) {
	m := testMatcher(t)
	pools := [][]series{of(onPods("monitoring", "node-exporter"), honest, 0, 1), of(onPods("zoo", "b"), honest, 2, 3)}
	tenant := func(nodes ...int) []series { return of(onPods("a", "a"), forged, nodes...) }
	all := slices.Concat(pools...)
	for _, tt := range []struct {
		name      string
		refreshes [][]series
		stolen    []int
	}{
		{"as many nodes as a pool's", [][]series{all, slices.Concat(all, tenant(2, 3))}, nil},
		{"all nodes", [][]series{all, slices.Concat(all, tenant(everyNode...))}, nil},
		{"all nodes, while a pool's exporter is down on one", [][]series{all, slices.Concat(all[:3], tenant(everyNode...))}, []int{3}},
		{"after that", [][]series{
			all, slices.Concat(all[:3], tenant(everyNode...)), slices.Concat(all, tenant(everyNode...)),
		}, nil},
		{"after the exporters were down", [][]series{all, tenant(everyNode...), slices.Concat(all, tenant(everyNode...))}, nil},
		// What remains.
		{"before the exporters", [][]series{tenant(everyNode...), slices.Concat(all, tenant(everyNode...))}, everyNode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var inUse InUse
			var r *Result
			for _, refresh := range tt.refreshes {
				r = answer(m, inUse, refresh)
				inUse = inUse.Next([]*Result{r})
			}
			var stolen []int
			for i, v := range r.Values {
				if v.Value != honest {
					stolen = append(stolen, i)
				}
			}
			if !slices.Equal(stolen, tt.stolen) {
				t.Errorf("nodes %v have the forged value, want %v", stolen, tt.stolen)
			}
		})
	}
}

func TestRivals_NamesBothSets(t *testing.T) {
	r := answer(testMatcher(t), nil, slices.Concat(of(onPods("monitoring", "node-exporter"), honest, everyNode...),
		of(oneTarget("tenant", "a"), forged, 0, 1)))
	if r.Conflict == nil || r.Conflict.Used.Namespace != "monitoring" || r.Conflict.Ignored.Namespace != "tenant" || r.Conflict.Nodes != 2 {
		t.Errorf("conflict %+v, want monitoring and tenant at 2 nodes", r.Conflict)
	}
	if got, want := r.Conflict.Used.Selector(), `{job="node-exporter", namespace="monitoring", service="node-exporter"}`; got != want {
		t.Errorf("selector %s, want %s", got, want)
	}
}

// A recording rule that keeps namespace and pod, and drops instance, is shown to be on the pod's node.
func TestSettle_RulesThatKeepThePod(t *testing.T) {
	rule := func(i int) labels {
		return labels{"namespace": "monitoring", "pod": fmt.Sprintf("exporter-%d", i), "node": fmt.Sprintf("n%d", i)}
	}
	r := answer(testMatcher(t), nil, slices.Concat(of(oneTarget("a", "a"), forged, everyNode...), of(rule, honest, everyNode...)))
	for i, v := range r.Values {
		if v.Value != honest {
			t.Errorf("n%d has %v of %v, want %v of the rule", i, v.Value, v.Set, honest)
		}
	}
}

func TestMatcher_TargetSets(t *testing.T) {
	m := testMatcher(t)
	pools := answer(m, nil, slices.Concat(of(onHosts("monitoring", "a"), honest, 0, 1), of(onPods("monitoring", "b"), honest, 2),
		of(onPods("tenant", "a"), forged, 0)))
	pools.Query.Kind = promql.Mean
	// The labels of both are {job="a", namespace="", service=""}. One is shown to be on its node, the other is not.
	alike := answer(m, nil, slices.Concat(
		of(func(i int) labels { return labels{"job": "a", "instance": fmt.Sprintf("10.0.0.%d:9100", i)} }, honest, 0, 1),
		of(func(i int) labels {
			return labels{"job": "a", "instance": "10.9.0.1:9100", "node": fmt.Sprintf("n%d", i)}
		}, honest, 2, 3)))
	alike.Query.Kind, alike.Query.Resource = promql.Mean, load.Memory
	var each []series
	for i := range nodeCount {
		each = append(each, of(onHosts("monitoring", fmt.Sprint("a", i)), honest, i)...)
	}
	deviation := answer(m, nil, each)
	deviation.Query.Kind = promql.StdDev

	got := m.TargetSets([]*Result{deviation, {Query: &promql.Query{Kind: promql.Mean}}, pools, alike, pools})
	want := []source.TargetSet{
		{Resource: load.CPU, Job: "a", Namespace: "monitoring", Service: "a", Nodes: 2},
		{Resource: load.CPU, Job: "b", Namespace: "monitoring", Service: "b", Nodes: 1},
		{Resource: load.Memory, Job: "a", Nodes: 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := SetOf(source.TargetSet{}).String(); got != "{} (no target)" {
		t.Errorf("no labels are %s", got)
	}
}

// TestMatcher_TargetSetsBound has one target set more than are kept in use.
func TestMatcher_TargetSetsBound(t *testing.T) {
	var nodes []*corev1.Node
	r := &Result{Query: &promql.Query{Kind: promql.Mean}, Coverage: Coverage{Nodes: maxInUse + 1}}
	for i := range maxInUse + 1 {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
		r.Values = append(r.Values, Value{Known: true, Set: &TargetSet{Job: strings.Repeat(string(rune('a'+i)), 1000)}})
	}
	cut := func(s string) string { return s[:min(len(s), 2)] }
	got := NewMatcher(nodes, nil, nil, cut).TargetSets([]*Result{r})
	if len(got) != 8 || got[0].Job != "aa" || got[7].Job != "hh" {
		t.Errorf("%+v, want aa to hh of nine", got)
	}
}
