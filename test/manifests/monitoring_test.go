package manifests_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	resources "github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const monitored = "{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate}, prometheusRule: {enabled: true}, dashboard: {enabled: true}, " +
	"rebalancer: {enabled: true}}"

type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	Annotations map[string]string `json:"annotations"`
}

type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Interval string `json:"interval"`
			Rules    []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// TestRecordingRules compares the chart's rules with the series that the scheduler reads: a rule records at each evaluation what the
// history of cAdvisor's pods adds up over a time.
func TestRecordingRules(t *testing.T) {
	rendered := *one[map[string]any](t, render(t, "recordingRules: {enabled: true, labels: {release: prometheus}}"), "PrometheusRule")
	data := check.Value(yaml.Marshal(rendered))(t)
	var typed prometheusRule
	check.OK(t, yaml.Unmarshal(data, &typed))
	if len(typed.Spec.Groups) != 1 || typed.Spec.Groups[0].Interval != "5m" || promql.RuleInterval != 5*time.Minute {
		t.Errorf("groups %+v, want one that is evaluated every %v", typed.Spec.Groups, promql.RuleInterval)
	}
	var got, want []rule
	for _, r := range typed.Spec.Groups[0].Rules {
		got = append(got, rule{Record: r.Record, Expr: strings.TrimSpace(r.Expr)})
	}
	family, withoutSum := promql.PodFamilies()[1], strings.NewReplacer("sum_over_time((", "", ")[1h:1m])", "")
	for r := range resources.ResourceCount {
		for s := range promql.SumCount {
			_, recorded, _ := strings.Cut(promql.RecordedHistory(r, s, time.Hour, nil), "sum_over_time(")
			name, _, _ := strings.Cut(recorded, "{")
			want = append(want, rule{Record: name, Expr: withoutSum.Replace(family.History(r, s, time.Hour, time.Minute))})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("write the rules that the scheduler reads into manifests/chart/files/recording-rules.yaml (-scheduler +chart):\n%s",
			diff)
	}
}

func alerts(t *testing.T, values string) (rules []rule, file []byte) {
	t.Helper()
	for _, o := range render(t, values) {
		if o.GetKind() != "PrometheusRule" {
			continue
		}
		data := check.Value(yaml.Marshal(o.Object))(t)
		var typed prometheusRule
		check.OK(t, yaml.Unmarshal(data, &typed))
		for _, group := range typed.Spec.Groups {
			rules = append(rules, group.Rules...)
		}
		file = check.Value(yaml.Marshal(o.Object["spec"]))(t)
	}
	return rules, file
}

// promtool checks and tests the rules.
func promtool(t *testing.T, rules, tests []byte) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
		check.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	program := check.Value(filepath.Abs(filepath.Join(root, "bin", "promtool")))(t)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestAlerts_Promtool(t *testing.T) {
	rules, file := alerts(t, monitored)
	tests := check.Value(os.ReadFile("testdata/alerts.yaml"))(t)
	promtool(t, file, tests)

	// testdata/alerts.yaml tests that each alert fires, and that it does not.
	var suite struct {
		Tests []struct {
			Rules []struct {
				Name   string `json:"alertname"`
				Alerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	check.OK(t, yaml.Unmarshal(tests, &suite))
	fires, quiet, want := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, test := range suite.Tests {
		for _, r := range test.Rules {
			if len(r.Alerts) > 0 {
				fires.Insert(r.Name)
			} else {
				quiet.Insert(r.Name)
			}
		}
	}
	for _, r := range rules {
		want.Insert(r.Alert)
	}
	if !want.Equal(fires) || !want.Equal(quiet) || want.Len() != 13 {
		t.Errorf("the alerts are %v; tested to fire %v, not to %v", sets.List(want), sets.List(fires), sets.List(quiet))
	}
}

// TestAlerts_Runbook expects a section of docs/troubleshoot.md for each alert.
func TestAlerts_Runbook(t *testing.T) {
	page := string(read(t, "docs", "troubleshoot.md"))
	rules, _ := alerts(t, monitored)
	for _, r := range rules {
		check.Equal(t, r.Alert, ofRepository+"docs/troubleshoot.md#"+anchorOf(r.Alert), r.Annotations["runbook_url"])
		check.Contains(t, page, "\n### "+r.Alert+"\n")
	}
}

// TestAlerts_NoLeader expects no alert about the leader without leader election, and without a ServiceMonitor.
func TestAlerts_NoLeader(t *testing.T) {
	for _, values := range []string{
		"{replicas: 1, config: {leaderElection: {leaderElect: false}}, serviceMonitor: {enabled: true, insecureSkipVerify: true}, prometheusRule: {enabled: true}}",
		"{prometheusRule: {enabled: true}}", // the labels of the scrape are not known
	} {
		rules, _ := alerts(t, values)
		var got []string
		for _, r := range rules {
			got = append(got, r.Alert)
		}
		check.Equal(t, "alerts with "+values, []string{"PlimsollSourceDown", "PlimsollLoadOld", "PlimsollFallback", "PlimsollPodsUnmeasured",
			"PlimsollNodesContested", "PlimsollNodesUnmeasured", "PlimsollStatisticsOld",
			"PlimsollPodsWaitForLine"}, got)
	}
}

// TestAlerts_OpenShift expects the labels that the operator's ServiceMonitor and Service give: the Service is called metrics.
func TestAlerts_OpenShift(t *testing.T) {
	rules, _ := alerts(t, "{target: OpenShift, prometheusRule: {enabled: true}}")
	for _, r := range rules {
		if r.Alert == "PlimsollNoLeader" {
			const labels = `{namespace="` + operatorNamespace + `",job="metrics",name="kube-scheduler"}`
			if _, err := parser.NewParser(parser.Options{}).
				ParseExpr(r.Expr); err != nil ||
				strings.Count(r.Expr, "leader_election_master_status"+labels) != 2 {
				t.Errorf("%v: %s", err, r.Expr)
			}
			return
		}
	}
	t.Error("there is no alert about the leader")
}

func TestAlerts_LimitsFromValues(t *testing.T) {
	rules, _ := alerts(t, "prometheusRule: {enabled: true, loadAgeSeconds: 1800, fallbackShare: 0.25}")
	for name, want := range map[string]string{"PlimsollLoadOld": "> 1800", "PlimsollFallback": "> 0.25"} {
		for _, r := range rules {
			if r.Alert == name && !strings.HasSuffix(strings.TrimSpace(r.Expr), want) {
				t.Errorf("%s is %q, want %q at its end", name, r.Expr, want)
			}
		}
	}
}

func queries(t *testing.T) []manifests.Query {
	t.Helper()
	for _, c := range find[corev1.ConfigMap](t, render(t, monitored), "ConfigMap") {
		if c.Labels["grafana_dashboard"] != "1" {
			continue
		}
		q := check.Value(manifests.Queries([]byte(c.Data["plimsoll.json"]),
			map[string]string{"job": ".*", "window": "5m", "nodes": "20"}))(t)
		return q
	}
	t.Fatal("there is no dashboard")
	return nil
}

func TestQueriesAskForMetricsThatAreThere(t *testing.T) {
	documented := string(read(t, "docs", "operate.md")) + string(read(t, "docs", "rebalance.md"))
	expressions := map[string]string{}
	for _, q := range queries(t) {
		expressions[q.Expression] = "panel " + q.Panel
	}
	rules, _ := alerts(t, monitored)
	for _, r := range rules {
		expressions[r.Expr] = "alert " + r.Alert
	}
	asked := sets.New[string]()
	for expression, where := range expressions {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
		if err != nil {
			t.Errorf("%s: %s: %v", where, expression, err)
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok || !strings.HasPrefix(selector.Name, "plimsoll_") {
				return nil
			}
			name := strings.TrimSuffix(selector.Name, "_bucket")
			asked.Insert(name)
			if !strings.Contains(documented, "`"+name+"{") {
				t.Errorf("%s asks for %s, which neither docs/operate.md nor docs/rebalance.md lists", where, name)
			}
			return nil
		})
	}
	// Metrics of load, lines, measured pods, contested nodes, statistics, and the shadow (15), and the rebalancer (6).
	if asked.Len() < 21 {
		t.Errorf("dashboard and alerts ask for %v", sets.List(asked))
	}
}

// TestDashboard_Schema expects what Grafana publishes of a dashboard, and of its panels and queries, and no other field.
func TestDashboard_Schema(t *testing.T) {
	plugins.RegisterDefaultPlugins() // for panels and queries
	var d dashboard.Dashboard        //nolint:staticcheck // dashboardv2 is for another API than files
	var found cog.BuildErrors        // never nil, but empty
	if err := d.UnmarshalJSONStrict(read(t, "manifests", "chart", "files", "dashboard.json")); !errors.As(err, &found) || len(found) > 0 {
		t.Errorf("%v", err)
	}
	check.OK(t, d.Validate())
}
