package configlint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	internaltext "github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// Cluster has the objects that a configuration may name.
type Cluster struct {
	Nodes      []*corev1.Node
	Namespaces []*corev1.Namespace
}

// CheckCluster reports what enabled plugins name or expect, and the cluster does not have.
func CheckCluster(content []byte, cfg *kubeschedulerconfig.KubeSchedulerConfiguration, c Cluster) (findings []finding.Finding) {
	root := parse(content)
	for i := range cfg.Profiles {
		p := profile{of: &cfg.Profiles[i], plugins: cfg.Profiles[i].Plugins}
		for j, plugin := range p.of.PluginConfig {
			if !Builds(p.of, plugin.Name) {
				continue
			}
			path := fmt.Sprintf("profiles[%d].pluginConfig[%d].args", i, j)
			written, _ := locate(root, path)
			findings = append(findings, c.unmatched(written, path)...)
			if args, ok := plugin.Args.(config.PowerModels); ok && args.HasPowerModels() {
				findings = append(findings, c.unmodelled(path+".nodePowerModels", args)...)
			}
		}
	}
	for i := range findings {
		findings[i].Line = lineOf(root, findings[i].Field)
	}
	return findings
}

// CheckNames reports node selectors and namespaces in a document that select nothing. An empty document has none.
func CheckNames(content []byte, c Cluster) []finding.Finding { return c.unmatched(parse(content), "") }

// unmatched reports selectors below a node that select nothing. Kinds of which there is no object could not be listed.
func (c *Cluster) unmatched(node *yaml.Node, path string) (findings []finding.Finding) {
	report := func(at, selector, advice string) {
		findings = append(findings, finding.Finding{
			Code: finding.SelectsNothing, Field: at, Details: []any{"selector", selector}, Advice: advice,
		})
	}
	for key, value := range pairs(node) {
		at := strings.TrimPrefix(strings.TrimSuffix(path+"."+key.Value, ".<<"), ".") // merged fields are the node's own
		findings = append(findings, c.unmatched(value, at)...)
		for i, item := range items(value) {
			findings = append(findings, c.unmatched(item, fmt.Sprintf("%s[%d]", at, i))...)
			named := func(n *corev1.Namespace) bool { return n.Name == text(item) }
			if (key.Value == "include" || key.Value == "exclude") && len(c.Namespaces) > 0 && !slices.ContainsFunc(c.Namespaces, named) {
				report(at, text(item), "correct or remove the name")
			}
		}
		if set := (labels.Set{}); key.Value == "nodeSelector" && value.Decode(&set) == nil && len(c.Nodes) > 0 &&
			!slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return config.Selects(set, n.Labels) }) {
			report(at, set.String(), "correct the labels, or remove the entry")
		}
	}
	return findings
}

// unmodelled reports nodes without a power model.
func (c *Cluster) unmodelled(field string, args config.PowerModels) []finding.Finding {
	var without []string
	for _, node := range c.Nodes {
		if args.PowerModelOf(node.Name, node.Labels) == nil {
			without = append(without, node.Name)
		}
	}
	if len(without) == 0 {
		return nil
	}
	return []finding.Finding{{
		Code: finding.NodesUnmodelled, Field: field,
		Details: []any{"without", internaltext.FirstN(without), "nodes", fmt.Sprintf("%d of %d", len(without), len(c.Nodes))},
		Advice:  "give them models by name in nodePowerModel, or by a label, such as",
		YAML: "nodePowerModels:\n" +
			"- {nodeSelector: {node.kubernetes.io/instance-type: m5.large}, k0: 471, k1: -91, k2: -0.07}\n",
	}}
}
