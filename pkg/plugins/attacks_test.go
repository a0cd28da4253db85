package plugins_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// target returns the labels of a target's series for a node.
type target func(node int) map[string]string

// attackedNodes have the names node-0 and so on, and the addresses 10.0.0.0 and so on.
const attackedNodes = freeNode + 1

// exporters are what measures the nodes. No tenant's target displaces them, at any time.
func exporters() map[string]target {
	return map[string]target{
		"node_exporter": func(node int) map[string]string {
			return map[string]string{
				"job": "node-exporter", "namespace": "monitoring", "service": "node-exporter",
				"pod": fmt.Sprint("exporter-", node), "instance": fmt.Sprintf("10.0.0.%d:9100", node),
			}
		},
		"kubelet": func(node int) map[string]string {
			return map[string]string{
				"job": "kubelet", "namespace": "kube-system", "service": "kubelet", "node": fmt.Sprint("node-", node),
				"instance": fmt.Sprintf("10.0.0.%d:10250", node),
			}
		},
	}
}

const nodePorts = "a node port by the nodes' addresses"

// attacks are the targets of a tenant beside an exporter. They name all nodes, and sort before it.
func attacks(exporter target) map[string][]target {
	of := func(service string, more func(node int) map[string]string) target {
		return func(node int) map[string]string {
			labels := map[string]string{"job": service, "namespace": "a-tenant", "service": service}
			maps.Copy(labels, more(node))
			return labels
		}
	}
	onePod := func(node int) map[string]string {
		return map[string]string{"pod": "exporter-4", "instance": "10.8.0.4:80", "node": fmt.Sprint("node-", node)}
	}
	pods := func(node int) map[string]string {
		return map[string]string{
			"pod": fmt.Sprint("exporter-", node), "instance": fmt.Sprintf("10.8.0.%d:80", node), "node": fmt.Sprint("node-", node),
		}
	}
	return map[string][]target{
		"one target":                         {of("a", onePod)},
		"one target, with more series":       {of("a", onePod), of("b", onePod), of("c", onePod)},
		"a service called node-exporter":     {of("node-exporter", onePod)},
		"a pod on each node":                 {of("a", pods)},
		"pods of a service of the same name": {of("node-exporter", pods)},
		nodePorts: {of("a", func(node int) map[string]string {
			return map[string]string{"instance": fmt.Sprintf("10.0.0.%d:30000", node)}
		})},
		"labels of the exporter by honor_labels": {func(node int) map[string]string {
			labels := exporter((node + 1) % attackedNodes)
			labels["job"], labels["node"] = "a", fmt.Sprint("node-", node)
			delete(labels, "instance")
			return labels
		}},
		"series without a target": {func(node int) map[string]string { return map[string]string{"node": fmt.Sprint("node-", node)} }},
	}
}

// sourceUnderAttack is a Prometheus with an exporter on each node, nil without, and a tenant's targets.
type sourceUnderAttack struct {
	exporter target
	forged   []target
}

// ServeHTTP implements http.Handler. The tenant's series come before and after the exporter's.
func (s *sourceUnderAttack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type element struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	query, now := r.FormValue("query"), plugintest.Now().Unix()
	var before, honest []element
	add := func(to *[]element, of target, value func(node int) float64) {
		for node := range attackedNodes {
			*to = append(*to, element{of(node), [2]any{now, fmt.Sprint(value(node))}})
		}
	}
	isTime := strings.Contains(query, "timestamp(") || query == "vector(time())"
	for _, of := range s.forged {
		add(&before, of, func(node int) float64 {
			if isTime {
				return float64(now)
			}
			return forgedValue(query, node)
		})
	}
	if s.exporter != nil {
		add(&honest, s.exporter, func(node int) float64 {
			switch {
			case isTime:
				return float64(now)
			case strings.Contains(query, "stddev_over_time"):
				return 0.05
			}
			return 0.3 + 0.05*float64(node) // so no nodes are equal
		})
	}
	body, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{
		"resultType": "vector", "result": slices.Concat(before, honest, before),
	}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	_, _ = w.Write(body)
}

// forgedValue draws pods to the last node: it is idle, and the others are full.
func forgedValue(query string, node int) float64 {
	switch last := node == freeNode; {
	case last || strings.Contains(query, "stddev_over_time"):
		return 0.01
	case strings.HasPrefix(query, "m"):
		return 9
	}
	return 0.97
}

// newAttackedSource returns a source without a selector.
func newAttackedSource(t *testing.T, server *sourceUnderAttack) *prometheus.Source {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	add := func(to cache.Indexer, object any) {
		check.OK(t, to.Add(object))
	}
	for i := range attackedNodes {
		node := st.MakeNode().Name(fmt.Sprint("node-", i)).Capacity(plugintest.CPUAndMemory("8", "32Gi")).Obj()
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", i)}}
		add(nodes, node)
	}
	url := check.Serve(t, server)
	s := check.Value(prometheus.New(prometheus.Config{
		Address: url.URL, Config: httpclient.Config{Timeout: time.Minute}, Dialect: promql.Auto, NodeLabels: []string{"node", "instance"},
	}, corelisters.NewNodeLister(nodes), plugintest.Clock()))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

// refresh returns what the source measures.
func refresh(t *testing.T, s *prometheus.Source) source.Batch {
	t.Helper()
	return check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{plugintest.Window}, Metrics: []string{"m0", "m1", "m2"}}))(t)
}

// placedBy returns how many pods the plugin places on each node, by what the source measures.
func placedBy(t *testing.T, s *prometheus.Source, name, args string) (count [attackedNodes]int, contested int) {
	t.Helper()
	batch := refresh(t, s)
	c := measuredCluster{nodes: map[string]load.NodeLoad{}, metrics: map[string]load.MetricTable{}}
	for i := range count {
		c.node(fmt.Sprint("node-", i), 0)
		c.nodes[fmt.Sprint("node-", i)] = load.NodeLoad{}
	}
	for _, sample := range batch.Samples {
		of := c.nodes[sample.Node]
		for r, stat := range sample.Stats {
			if stat.Known {
				of[r] = load.Measurement{Stat: stat, Window: sample.Window, End: sample.End}
			}
		}
		c.nodes[sample.Node] = of
	}
	for _, metric := range batch.Metrics {
		table := load.MetricTable{}
		for node, value := range metric.Values {
			table[node] = load.MetricValue{Value: value, End: metric.End}
		}
		c.metrics[metric.Metric] = table
	}
	scheduler := c.scheduler(t, name, args)
	for i := range victims {
		count[place(t, scheduler, ofOthers(fmt.Sprint("web-", i), "40m", "80m", "64Mi", "128Mi"))]++
	}
	return count, len(batch.Contested)
}

// No series of a tenant's targets moves any of 40 pods of others. No nodes are equal, so no tie is broken at random.
func TestAttacks_SteerNobody(t *testing.T) {
	for name, args := range claimants() {
		for by, exporter := range exporters() {
			honest, _ := placedBy(t, newAttackedSource(t, &sourceUnderAttack{exporter: exporter}), name, args)
			for attack, forged := range attacks(exporter) {
				// Believed, the series would move pods. Otherwise this test would show nothing.
				if believed, _ := placedBy(t, newAttackedSource(t, &sourceUnderAttack{forged: forged}), name, args); believed == honest {
					t.Errorf("%s, %s: by forged series alone, pods a node are %v, and by those of the %s %v", name, attack, believed, by, honest)
				}
				for when, refreshes := range map[string]int{"at the start": 0, "later": 2} {
					t.Run(name+"/"+by+"/"+attack+"/"+when, func(t *testing.T) {
						server := &sourceUnderAttack{exporter: exporter}
						s := newAttackedSource(t, server)
						for range refreshes {
							refresh(t, s)
						}
						server.forged = forged
						got, contested := placedBy(t, s, name, args)
						if attack == nodePorts { // as the exporter's, the instance is the node: only a selector tells them apart
							check.Equal(t, "nodes contested", attackedNodes, contested)
							return
						}
						if got != honest || contested != 0 {
							t.Errorf("pods a node %v, %d nodes contested; want %v as without the series, and none", got, contested, honest)
						}
					})
				}
			}
		}
	}
}
