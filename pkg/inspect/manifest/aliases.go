package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// checkAliases fails if a YAML document is larger than maxBytes with its aliases expanded: conversion to JSON expands them.
func checkAliases(document []byte) error {
	if !bytes.ContainsRune(document, '&') {
		return nil // no anchor
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return err
	}
	anchorSizes := map[*yaml.Node]int{}
	if expandedSize(&root, anchorSizes) > maxBytes {
		return fmt.Errorf("with its aliases replaced, it has more than %d bytes", maxBytes)
	}
	return nil
}

// expandedSize returns the bytes of a node with all aliases expanded. It stops counting beyond maxBytes.
func expandedSize(node *yaml.Node, anchorSizes map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		size, ok := anchorSizes[node.Alias]
		if !ok {
			anchorSizes[node.Alias] = 0 // the decoder rejects an anchor within itself
			size = expandedSize(node.Alias, anchorSizes)
			anchorSizes[node.Alias] = size
		}
		return size
	}
	sum := len(node.Value) + 1
	for _, child := range node.Content {
		if sum += expandedSize(child, anchorSizes); sum > maxBytes {
			break
		}
	}
	return sum
}
