package configlint_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCheckCluster(t *testing.T) {
	// Nodes n0, n1 … have the label pool=a.
	clusterOf := func(nodes int) configlint.Cluster {
		c := configlint.Cluster{PriorityClasses: []string{"batch", "high"}}
		for i := range nodes {
			meta := metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"pool": "a"}}
			c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: meta})
		}
		meta := metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}
		c.Namespaces = append(c.Namespaces, &corev1.Namespace{ObjectMeta: meta})
		return c
	}
	const lines = "profiles:\n- plugins: {multiPoint: {enabled: [{name: LoadThreshold}]}}\n  pluginConfig:\n  - name: LoadThreshold\n    args:\n      "
	const models = "profiles:\n- plugins: {score: {enabled: [{name: Peaks}]}}\n  pluginConfig:\n  - name: Peaks\n    args:\n      "
	nothing := func(field string, line int, selector, advice string) []finding.Finding {
		return []finding.Finding{{
			Code: finding.SelectsNothing, Field: "profiles[0].pluginConfig[0].args." + field, Line: line, Details: []any{"selector", selector}, Advice: advice,
		}}
	}
	const byLabels = "correct the labels, or remove the entry"
	for _, tt := range []struct {
		name, config string
		nodes        int
		want         []finding.Finding
	}{
		{"pools of nodes that exist", lines + "nodeThresholds: [{nodeSelector: {pool: a}, cpu: 50}]\n", 2, nil},
		{"a pool without nodes", lines + "nodeThresholds: [{nodeSelector: {pool: gpu}, cpu: 50}]\n", 2,
			nothing("nodeThresholds[0].nodeSelector", 8, "pool=gpu", byLabels)},
		{"a misspelled priority class", lines + "exempt: {priorityClassNames: [batch, hihg]}\n", 2,
			nothing("exempt.priorityClassNames", 8, "hihg", "correct or remove the name; did you mean high?")},
		{"a namespace selector", lines + "exempt: {namespaceSelector: {matchLabels: {team: shop}}}\n", 2, nil},
		{"a namespace selector of no namespace", lines + "exempt: {namespaceSelector: {matchLabels: {team: ops}}}\n", 2,
			nothing("exempt.namespaceSelector", 8, "team=ops", byLabels)},
		{"a plugin that is not enabled", "profiles:\n- pluginConfig:\n  - {name: LoadThreshold, args: {exempt: {priorityClassNames: [none]}}}\n", 2, nil},
		{"a model of a node that is gone", models + "nodePowerModel: {n0: {k0: 1, k1: 1, k2: 0.01}, w9: {k0: 1, k1: 1, k2: 0.01}}\n", 1,
			nothing("nodePowerModel", 8, "w9", "correct or remove the name; did you mean n0?")},
		{"a node without a model", models + "nodePowerModels: [{nodeSelector: {pool: a}, k0: 1, k1: 1, k2: 0.01}]\n", 2, nil},
		{"a model of one node of two", models + "nodePowerModel: {n0: {k0: 1, k1: 1, k2: 0.01}}\n", 2, []finding.Finding{{
			Code: finding.NodesUnmodelled, Field: "profiles[0].pluginConfig[0].args.nodePowerModels", Line: 7,
			Details: []any{"without", "n1", "nodes", "1 of 2"}, Advice: "give them models by name in nodePowerModel, or by a label, such as",
			YAML: "nodePowerModels:\n- {nodeSelector: {node.kubernetes.io/instance-type: m5.large}, k0: 471, k1: -91, k2: -0.07}\n",
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			content := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + tt.config)
			check.Equal(t, "findings", tt.want, configlint.CheckCluster(content, check.Value(configlint.Decode(content))(t), clusterOf(tt.nodes)))
		})
	}
	// What cannot be listed is not absent, and a merge is no field.
	for name, args := range map[string]string{
		"classes": "exempt: {priorityClassNames: [none]}\n", "namespaces": "exempt: {namespaceSelector: {matchLabels: {team: ops}}}\n",
		"nodes": "nodeThresholds: [{nodeSelector: {pool: gpu}, cpu: 50}]\n",
	} {
		content := []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + lines + args)
		findings := configlint.CheckCluster(content, check.Value(configlint.Decode(content))(t), configlint.Cluster{})
		check.Equal(t, name+" that cannot be listed", []finding.Finding(nil), findings)
	}
	merged := configlint.CheckNames([]byte("<<: {nodePowerModel: {n: {}}}\n"), clusterOf(300))
	if len(merged) != 1 || merged[0].Field != "nodePowerModel" || strings.Count(merged[0].Advice, " or ") != 3 {
		t.Errorf("merged names: %+v, want one finding at nodePowerModel with three names", merged)
	}
}
