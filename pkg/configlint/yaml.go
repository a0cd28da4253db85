package configlint

import (
	"iter"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// parse returns the root of a document; nil if the content has none. Decoding reports invalid YAML.
// All functions below accept a nil node.
func parse(content []byte) *yaml.Node {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// resolve returns the node that an alias refers to, and any other node itself.
func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// text returns the value of a scalar; "" for nil.
func text(node *yaml.Node) string {
	if node = resolve(node); node == nil {
		return ""
	}
	return node.Value
}

// pairs yields the keys and values of a mapping, and nothing for any other node.
func pairs(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		node = resolve(node)
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], resolve(node.Content[i+1])) {
				return
			}
		}
	}
}

// entry returns the value of a key in a mapping; nil if the key is not there.
func entry(node *yaml.Node, key string) *yaml.Node {
	_, value := pair(node, key)
	return value
}

// pair returns a key of a mapping with its value; nil if the key is not there.
func pair(node *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range pairs(node) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// items returns the elements of a sequence, and none for any other node.
func items(node *yaml.Node) []*yaml.Node {
	node = resolve(node)
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

// step matches a part of a path such as profiles[0].plugins: a key or an index.
var step = regexp.MustCompile(`[^.\[\]]+`)

// lineOf returns the line of a field, or of the innermost known part of its path; 0 if unknown.
func lineOf(node *yaml.Node, path string) int {
	line := 0
	for _, part := range step.FindAllString(path, -1) {
		var at, next *yaml.Node
		if i, err := strconv.Atoi(part); err != nil {
			at, next = pair(node, part)
		} else if list := items(node); i < len(list) {
			at, next = list[i], list[i]
		}
		if at == nil {
			break
		}
		node, line = next, at.Line
	}
	return line
}
