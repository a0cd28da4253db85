package configlint_test

import (
	"fmt"
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
		var c configlint.Cluster
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
		{"a plugin that is not enabled", "profiles:\n- pluginConfig:\n  - {name: LoadThreshold, args: {nodeThresholds: [{nodeSelector: {pool: gpu}, cpu: 50}]}}\n", 2, nil},
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
	content := []byte("nodeSelector: {pool: gpu}\nnamespaces: {include: [none]}\n")
	check.Equal(t, "what cannot be listed", []finding.Finding(nil), configlint.CheckNames(content, configlint.Cluster{}))
	merged := configlint.CheckNames([]byte("namespaces: {<<: {exclude: [shop, shopp]}}\n"), clusterOf(1))
	check.Equal(t, "merged names", []finding.Finding{{
		Code: finding.SelectsNothing, Field: "namespaces.exclude", Details: []any{"selector", "shopp"}, Advice: "correct or remove the name",
	}}, merged)
}
