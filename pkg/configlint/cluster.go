package configlint

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	internaltext "github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// Cluster has the objects that a configuration may name.
type Cluster struct {
	Nodes      []*corev1.Node
	Namespaces []*corev1.Namespace
	// PriorityClasses are their names; nil if unknown.
	PriorityClasses []string
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

// CheckNames reports the names and labels in a document that select nothing. An empty document has none.
func CheckNames(content []byte, c Cluster) []finding.Finding { return c.unmatched(parse(content), "") }

// unmatched reports the names and labels below a node that select nothing. Kinds of which there is no object could not be listed.
func (c *Cluster) unmatched(node *yaml.Node, path string) (findings []finding.Finding) {
	report := func(at, selector, advice string) {
		findings = append(findings, finding.Finding{
			Code: finding.SelectsNothing, Field: at, Details: []any{"selector", selector}, Advice: advice,
		})
	}
	names := func(at string, list []string, all []string) {
		for _, name := range list {
			if len(all) > 0 && !slices.Contains(all, name) {
				report(at, name, "correct or remove the name"+didYouMean(name, all))
			}
		}
	}
	selects := func(at string, selector labels.Selector, all []labels.Set) {
		if len(all) > 0 && !selector.Empty() && !slices.ContainsFunc(all, func(s labels.Set) bool { return selector.Matches(s) }) {
			report(at, selector.String(), "correct the labels, or remove the entry")
		}
	}
	for key, value := range pairs(node) {
		at := strings.TrimPrefix(strings.TrimSuffix(path+"."+key.Value, ".<<"), ".") // merged fields are the node's own
		var list []string
		for i, item := range items(value) {
			list = append(list, text(item))
			findings = append(findings, c.unmatched(item, fmt.Sprintf("%s[%d]", at, i))...)
		}
		switch key.Value {
		case "nodeSelector":
			set := labels.Set{}
			_ = value.Decode(&set) // the configuration was decoded before
			selects(at, set.AsSelector(), setsOf(c.Nodes))
		case "namespaceSelector":
			var of metav1.LabelSelector
			content, _ := yaml.Marshal(value)
			_ = sigsyaml.Unmarshal(content, &of)
			if selector, err := metav1.LabelSelectorAsSelector(&of); err == nil {
				selects(at, selector, setsOf(c.Namespaces))
			}
		case "nodePowerModel":
			names(at, keysOf(value), namesOf(c.Nodes))
		case "include", "exclude":
			names(at, list, namesOf(c.Namespaces))
		case "priorityClassNames":
			names(at, list, c.PriorityClasses)
		default:
			findings = append(findings, c.unmatched(value, at)...)
		}
	}
	return findings
}

func keysOf(node *yaml.Node) (keys []string) {
	for key := range pairs(node) {
		keys = append(keys, key.Value)
	}
	return keys
}

func didYouMean(name string, names []string) string {
	if similar := SimilarNames(name, names); len(similar) > 0 {
		return "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return ""
}

func namesOf[T metav1.Object](objects []T) []string { return internaltext.Each(objects, T.GetName) }

func setsOf[T metav1.Object](objects []T) (sets []labels.Set) {
	for _, object := range objects {
		sets = append(sets, object.GetLabels())
	}
	return sets
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
