package plan

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

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
