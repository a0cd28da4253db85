package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// checkAliases fails if a document of YAML is beyond maxBytes once its aliases are replaced: conversion to JSON copies each.
func checkAliases(document []byte) error {
	if !bytes.ContainsRune(document, '&') {
		return nil // no anchor
	}
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return err
	}
	sizes := map[*yaml.Node]int{} // of anchors
	if size(&root, sizes) > maxBytes {
		return fmt.Errorf("with its aliases replaced, it has more than %d bytes", maxBytes)
	}
	return nil
}

// size returns the number of bytes of a node with all aliases replaced. It stops counting beyond maxBytes.
func size(node *yaml.Node, sizes map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		known, ok := sizes[node.Alias]
		if !ok {
			sizes[node.Alias] = 0 // an anchor within itself is the decoder's to reject
			known = size(node.Alias, sizes)
			sizes[node.Alias] = known
		}
		return known
	}
	sum := len(node.Value) + 1
	for _, child := range node.Content {
		if sum += size(child, sizes); sum > maxBytes {
			break
		}
	}
	return sum
}
