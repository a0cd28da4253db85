// Package scheme makes the kube-scheduler know the plugins' arguments: a KubeSchedulerConfiguration that names one of the
// plugins has its args decoded strictly, defaulted, and converted to the internal types, like those of stock plugins.
package scheme

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	kubeschedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	kubeschedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
)

// The kube-scheduler reads its configuration through schemes of its own and offers no way to hand in another, so they are
// added to once, before anything can read a configuration: a scheme must not change while it is used.
//
// There are two: one decodes and encodes the file, the other defaults and converts the args within it. Where only the
// first knew a type, loading would fail; where only the second did, args would pass undecoded.
//
// Where one of the plugins that have a soft limit is enabled, the configuration's own defaults complete what it takes: by
// multiPoint alone its PostFilter would stand behind DefaultPreemption, and pods would be evicted for a soft limit.
func init() {
	utilruntime.Must(AddToScheme(kubeschedulerscheme.Scheme))
	kubeschedulerscheme.Scheme.AddTypeDefaultingFunc(&kubeschedulerconfigv1.KubeSchedulerConfiguration{}, func(obj any) {
		configuration := obj.(*kubeschedulerconfigv1.KubeSchedulerConfiguration)
		kubeschedulerv1.SetObjectDefaults_KubeSchedulerConfiguration(configuration)
		v1.SetDefaults_SoftLimits(configuration)
	})
	utilruntime.Must(AddToScheme(kubeschedulerv1.GetPluginArgConversionScheme()))
}

// AddToScheme registers the internal and the versioned types of the plugins' arguments, with defaults and conversions.
// The kube-scheduler's own schemes have them by the import of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(config.AddToScheme(scheme), v1.AddToScheme(scheme))
}
