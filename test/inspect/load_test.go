package inspect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// servedProfile scores by load that is read seldom, and records decisions.
const servedProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: plimsoll, resourceNamespace: ` + installed + `}
percentageOfNodesToScore: 100
profiles:
- schedulerName: served
  plugins:
    multiPoint: {enabled: [{name: TargetLoadPacking, weight: 50}, {name: DecisionRecord}]}
    score: {disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]}
  pluginConfig:
  - name: DecisionRecord
    args: {eventsPerSecond: 10, burst: 100}
  - name: TargetLoadPacking
    args: {PROVIDER refreshInterval: 15s, window: 20s}
`

// TestLoad_IsTheSchedulers has load that moves fast. What explain says of a pod is then what the scheduler decides by a moment later,
// unless the scheduler reads its source in between.
func TestLoad_IsTheSchedulers(t *testing.T) {
	for _, source := range []string{"Prometheus", "metrics-server"} {
		t.Run(source, func(t *testing.T) {
			c, err := cluster.Start(context.WithoutCancel(t.Context()), cluster.Options{BinDir: shared.binDir, MetricsServer: true})
			must(t, err)
			t.Cleanup(func() { must(t, c.Stop()) })
			e := &environment{Cluster: c, binDir: shared.binDir}
			provider := ""
			if source == "Prometheus" {
				provider = "metricProvider: {type: Prometheus, address: '" + c.Endpoints.Prometheus + "'},"
			}
			replica := e.servesLoad(t, strings.Replace(servedProfile, "PROVIDER", provider, 1))
			e.decidesAsExplained(t, replica)
		})
	}
}

// servesLoad runs a scheduler, installs the chart's objects for it, and makes its port that of its pod.
func (e *environment) servesLoad(t *testing.T, configuration string) cluster.Replica {
	t.Helper()
	ctx := t.Context()
	for i := range 4 {
		name := fmt.Sprintf("n-%d", i)
		must(t, e.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		must(t, e.SetLoad(ctx, name, cluster.Load{Usage: cluster.Usage{
			CPU: fmt.Sprintf("%dm", 2500+500*i), CPUSwing: "2", SwingPeriod: time.Duration(11+4*i) * time.Second,
		}}))
	}
	host, err := os.Hostname() // names the leader in the Lease
	must(t, err)
	leader := strings.ToLower(host)
	e.install(t, configuration, leader)
	const account = "plimsoll-load-reader"
	create(t, e.Client.CoreV1().ServiceAccounts(installed), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	create(t, e.Client.RbacV1().ClusterRoles(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/plimsoll/v1/load"}, Verbs: []string{"get"}}},
	})
	create(t, e.Client.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: installed, Name: account}},
	})
	port, err := cluster.FreePort()
	must(t, err)
	replica, err := e.RunScheduler(ctx, "serving-scheduler", "kube-scheduler",
		configuration+"clientConnection: {kubeconfig: "+e.AdminKubeconfig+"}\n", fmt.Sprint("--load-port=", port))
	must(t, err)
	t.Cleanup(func() { _ = replica.Kill() })
	supervise(t, replica.Process)
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	waitUntil(t, func() bool { // nobody may read it without a name
		resp, err := insecure.Get(fmt.Sprintf("https://127.0.0.1:%d/plimsoll/v1/load", port))
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusForbidden
	})
	endpoint := expose(t, fmt.Sprint("https://127.0.0.1:", port))
	d, err := e.Client.AppsV1().Deployments(installed).Get(ctx, "plimsoll", metav1.GetOptions{})
	must(t, err)
	command := &d.Spec.Template.Spec.Containers[0].Command
	*command = append(*command, fmt.Sprint("--load-port=", endpoint.Port))
	_, err = e.Client.AppsV1().Deployments(installed).Update(ctx, d, metav1.UpdateOptions{})
	must(t, err)
	e.changeRunning(t, installed, leader, func(status *corev1.PodStatus) {
		status.PodIP, status.PodIPs = endpoint.IP.String(), []corev1.PodIP{{IP: endpoint.IP.String()}}
	})
	waitUntil(t, func() bool {
		m, err := replica.Metrics(ctx)
		return err == nil && m.Sum("plimsoll_load_nodes", "resource", "cpu", "state", "Fresh") == 4
	})
	return replica
}

// refreshes is how often the scheduler has read its source; negative if it does not answer.
func refreshes(t *testing.T, replica cluster.Replica) float64 {
	t.Helper()
	m, err := replica.Metrics(t.Context())
	if err != nil {
		return -1
	}
	return m.Sum("plimsoll_refresh_total")
}

// targetTerms are the terms of TargetLoadPacking for the node, as a record has them.
func targetTerms(n *sim.NodeResult) (terms []pluginexplain.Term) {
	for _, of := range n.Terms {
		if of.Plugin != "TargetLoadPacking" {
			continue
		}
		for _, term := range of.Terms {
			term.Value = math.Round(100*term.Value) / 100
			terms = append(terms, term)
		}
	}
	return terms
}

// decidesAsExplained places pods, and compares the records of the decisions with what was explained just before. A source may give the
// same load for long: only pods placed by at least three different loads say something.
func (e *environment) decidesAsExplained(t *testing.T, replica cluster.Replica) {
	t.Helper()
	const pods, loads, patience = 20, 3, 15 * time.Minute
	ctx, compared, between, distinct, start, unserved := t.Context(), 0, 0, map[float64]bool{}, time.Now(), ""
	for i := 0; compared < pods || len(distinct) < loads; i++ {
		if time.Since(start) > patience {
			t.Fatalf("after %s: %d pods compared (want %d), a refresh came between in %d, %d different loads of the chosen node (want %d) %s",
				patience, compared, pods, between, len(distinct), loads, unserved)
		}
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i)}, Spec: corev1.PodSpec{
			SchedulerName: "served", Containers: []corev1.Container{{Name: "web", Image: "web"}},
		}}
		text, err := json.Marshal(pod)
		must(t, err)
		before := refreshes(t, replica)
		r := e.plimsollReading(t, string(text), "explain", "-f", "-", "-o", "json", "--scheduler="+installed+"/plimsoll").wants(t, 0)
		var explained explain.Explanation
		must(t, json.Unmarshal([]byte(r.stdout), &explained))
		if note := slices.IndexFunc(explained.Notes, func(n string) bool { return strings.Contains(n, "not the scheduler's own") }); note >= 0 {
			unserved = explained.Notes[note] // on a busy machine, the scheduler may answer late
			between++
			continue
		}
		_, err = e.Client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		must(t, err)
		_, err = e.WaitEvent(ctx, pod.Name, "PlacementRecorded")
		must(t, err)
		after := refreshes(t, replica)
		r = e.plimsoll(t, "explain", pod.Name, "--last", "-o", "json", "--scheduler="+installed+"/plimsoll").wants(t, 0)
		must(t, e.DeletePods(ctx, "default", metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}))
		if before != after || before < 0 {
			between++
			continue
		}
		compared++
		var last explain.LastDecision
		must(t, json.Unmarshal([]byte(r.stdout), &last))
		if !slices.Contains(explained.Decision.Nodes, last.Record.Node) {
			t.Errorf("%s is on %s, explained was %v", pod.Name, last.Record.Node, explained.Decision.Nodes)
			continue
		}
		candidate := slices.IndexFunc(explained.Candidates, func(c sim.NodeResult) bool { return c.Name == last.Record.Node })
		wanted, recorded := targetTerms(&explained.Candidates[candidate]), last.Record.Plugins[slices.IndexFunc(last.Record.Plugins,
			func(p pluginexplain.RecordPlugin) bool { return p.Name == "TargetLoadPacking" })].Terms
		if diff := cmp.Diff(wanted, recorded); diff != "" {
			t.Errorf("%s (-explained +recorded):\n%s", pod.Name, diff)
		}
		for _, term := range recorded {
			if term.Name == "cpu measured" {
				distinct[term.Value] = true
			}
		}
	}
	t.Logf("%d pods compared, a refresh came between in %d, %d different loads of the chosen node", compared, between, len(distinct))
	waitFor(t, func() string {
		r := e.plimsoll(t, "top", "-o", "json", "--scheduler="+installed+"/plimsoll").wants(t, 0)
		var nodes top.Nodes
		must(t, json.Unmarshal([]byte(r.stdout), &nodes))
		if len(nodes.Problems) > 0 || len(nodes.Nodes) != 4 || nodes.Nodes[0].CPU.MeasuredPercent == nil {
			return r.stdout
		}
		return ""
	})
}
