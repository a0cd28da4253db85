package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
)

// checkQuantities fails if a quantity of the object would take long to decode. It runs before the decoder, and leaves other
// mistakes to it.
func (p *parser) checkQuantities(document []byte) error {
	content := document
	if !utilyaml.IsJSONBuffer(document) {
		var err error
		if content, err = yaml.YAMLToJSON(document); err != nil {
			return err
		}
	}
	kind, err := serializerjson.DefaultMetaFactory.Interpret(content)
	if err != nil {
		return nil
	}
	object, err := scheme.Scheme.New(*kind)
	if err != nil {
		return nil // the decoder ignores it
	}
	path, err := checkValue(nil, content, reflect.TypeOf(object))
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %s: %w", kind.Kind, p.nameOf(content), text.Excerpt(path.String()), err)
}

// nameOf returns the namespace and name of an object that is not decoded yet.
func (p *parser) nameOf(content []byte) string {
	var object struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(content, &object) // the decoder reports errors
	if object.Metadata.Namespace == "" {
		object.Metadata.Namespace = p.namespace
	}
	return text.Excerpt(object.Metadata.Namespace + "/" + object.Metadata.Name)
}

// checkValue checks the quantities in a JSON value of a Go type. It returns the path of the first error.
func checkValue(path *field.Path, value []byte, typ reflect.Type) (*field.Path, error) {
	value = bytes.TrimSpace(value)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ == reflect.TypeFor[resource.Quantity]() {
		return path, new(quantity.Bounded).UnmarshalJSON(value)
	}
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil, nil // has no quantities, such as a time
	}
	switch {
	case typ.Kind() == reflect.Slice && bytes.HasPrefix(value, []byte("[")):
		return checkItems(path, value, typ.Elem())
	case typ.Kind() == reflect.Struct && bytes.HasPrefix(value, []byte("{")):
		fields := configlint.FieldTypes(typ)
		return checkMembers(value, func(name string, member []byte) (*field.Path, error) {
			if fields[name] == nil {
				return nil, nil
			}
			return checkValue(path.Child(name), member, fields[name])
		})
	case typ.Kind() == reflect.Map && bytes.HasPrefix(value, []byte("{")):
		return checkMembers(value, func(name string, member []byte) (*field.Path, error) {
			return checkValue(path.Key(name), member, typ.Elem())
		})
	}
	return nil, nil
}

func checkItems(path *field.Path, list []byte, itemType reflect.Type) (*field.Path, error) {
	d := json.NewDecoder(bytes.NewReader(list))
	if _, err := d.Token(); err != nil {
		return path, err
	}
	for i := 0; d.More(); i++ {
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return path, err
		}
		if at, err := checkValue(path.Index(i), item, itemType); err != nil {
			return at, err
		}
	}
	return nil, nil
}

// checkMembers calls check for each member of the object, and for duplicate names too: the decoder reads all.
func checkMembers(object []byte, check func(name string, member []byte) (*field.Path, error)) (*field.Path, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return nil, err
		}
		if at, err := check(name.(string), member); err != nil {
			return at, err
		}
	}
	return nil, nil
}
