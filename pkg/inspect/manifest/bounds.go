package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	yamlnode "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
)

// checkAliases fails if a YAML document is larger than maxBytes with its aliases expanded: conversion to JSON expands them.
func checkAliases(document []byte) error {
	if !bytes.ContainsRune(document, '&') {
		return nil // no anchor
	}
	var root yamlnode.Node
	if err := yamlnode.Unmarshal(document, &root); err != nil {
		return err
	}
	if expandedSize(&root, map[*yamlnode.Node]int{}) > maxBytes {
		return fmt.Errorf("with its aliases replaced, it has more than %d bytes", maxBytes)
	}
	return nil
}

// expandedSize returns the bytes of a node with all aliases expanded. It stops counting beyond maxBytes.
func expandedSize(node *yamlnode.Node, anchorSizes map[*yamlnode.Node]int) int {
	if node.Kind == yamlnode.AliasNode {
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

// checkQuantities fails if a quantity of the object would take long to decode. The decoder reports other mistakes.
func checkQuantities(object *unstructured.Unstructured) error {
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil
	}
	return checkValue(nil, object.Object, reflect.TypeOf(typed))
}

// checkValue checks the quantities in a value of JSON, by the Go type that it is decoded to. Numbers are float64 by now.
func checkValue(path *field.Path, value any, typ reflect.Type) error {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[resource.Quantity]() {
		content, _ := json.Marshal(value) // it was read from JSON
		if err := new(quantity.Bounded).UnmarshalJSON(content); err != nil {
			return fmt.Errorf("%s: %w", text.Excerpt(path.String()), err)
		}
		return nil
	}
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil // has no quantities, such as a time
	}
	switch list, isList := value.([]any); {
	case isList && typ.Kind() == reflect.Slice:
		for i, item := range list {
			if err := checkValue(path.Index(i), item, typ.Elem()); err != nil {
				return err
			}
		}
	case typ.Kind() == reflect.Struct, typ.Kind() == reflect.Map:
		members, _ := value.(map[string]any)
		return checkMembers(path, members, typ)
	}
	return nil
}

func checkMembers(path *field.Path, members map[string]any, typ reflect.Type) error {
	member := func(name string) (*field.Path, reflect.Type) { return path.Key(name), typ.Elem() }
	if typ.Kind() == reflect.Struct {
		fields := configlint.FieldTypes(typ)
		member = func(name string) (*field.Path, reflect.Type) { return path.Child(name), fields[name] }
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if at, typ := member(name); typ != nil {
			if err := checkValue(at, members[name], typ); err != nil {
				return err
			}
		}
	}
	return nil
}
