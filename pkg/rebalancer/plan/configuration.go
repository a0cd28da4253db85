package plan

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// ReadConfiguration reads a RebalancerConfiguration. Without a file it returns the defaults. Errors name the file.
func ReadConfiguration(file string) (*api.Configuration, error) {
	if file == "" {
		return api.Default(), nil
	}
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, err
	}
	c, err := DecodeConfiguration(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// DecodeConfiguration is api.Decode, whose errors have the line and path of a wrong field, and what to write.
func DecodeConfiguration(content []byte) (*api.Configuration, error) {
	document := api.Default() // to compare the kind alone: fields of another kind are unknown
	document.TypeMeta = metav1.TypeMeta{}
	if yaml.Unmarshal(content, &document.TypeMeta) == nil {
		if err := document.Validate().ToAggregate(); err != nil {
			return nil, err
		}
	}
	if err := configlint.CheckFields(content, reflect.TypeFor[api.Configuration]()); err != nil {
		return nil, err
	}
	return api.Decode(content)
}
