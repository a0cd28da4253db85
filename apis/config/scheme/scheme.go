// Package scheme registers the plugins' arguments with the kube-scheduler. It then decodes, defaults and converts them as those of
// stock plugins.
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

// The kube-scheduler reads its configuration through two schemes of its own. One decodes and encodes the file.
// The other defaults and converts the args within it. Both must know a type. Without the first, loading fails.
// Without the second, args stay undecoded. init extends both because a scheme must not change once in use.
//
// Defaulting also completes profiles that enable a plugin with a soft limit. Enabled at multiPoint alone, its PostFilter would run
// after DefaultPreemption, and pods would be evicted because of a soft limit.
func init() {
	utilruntime.Must(AddToScheme(kubeschedulerscheme.Scheme))
	kubeschedulerscheme.Scheme.AddTypeDefaultingFunc(&kubeschedulerconfigv1.KubeSchedulerConfiguration{}, func(obj any) {
		cfg := obj.(*kubeschedulerconfigv1.KubeSchedulerConfiguration)
		kubeschedulerv1.SetObjectDefaults_KubeSchedulerConfiguration(cfg)
		setSoftLimitDefaults(cfg)
	})
	utilruntime.Must(AddToScheme(kubeschedulerv1.GetPluginArgConversionScheme()))
}

// AddToScheme registers the internal and the versioned types of the plugins' arguments, with defaults and conversions.
// Importing this package has already registered them in the kube-scheduler's own schemes.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(config.AddToScheme(scheme), v1.AddToScheme(scheme))
}
