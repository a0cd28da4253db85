package upstream

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
)

// This file and the one named after a stock plugin's package have what Kubernetes' tests use of that package. Both are compiled into
// the package of the plugin here, beside those tests. Types and fields have the names of the stock ones.

// shared is the index of all rows of all tables: their nodes and pods come and go as between decisions of one scheduler.
var shared = podindex.New()

// newPlugin leaves the stock plugin inside with the features of the gates. It gives hints, signatures and errors, and decides the
// pods that are left to it.
func newPlugin(ctx context.Context, args runtime.Object, handle minor.Handle, features feature.Features) (minor.Plugin, error) {
	made, err := Describe().New(ctx, args, handle, descriptor.Deps{Pods: shared})
	if err != nil {
		return nil, err
	}
	made.(*tested).features = features
	made.(*tested).leaveOut()
	return made, nil
}

// hint returns the hint that the plugin registers for events of the resource.
func (pl *tested) hint(resource fwk.EventResource, logger klog.Logger, pod *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
	events, err := pl.EventsToRegister(context.Background())
	if err != nil {
		return 0, err
	}
	for _, event := range events {
		if event.Event.Resource == resource {
			return event.QueueingHintFn(logger, pod, before, after)
		}
	}
	panic("no hint for events of " + resource)
}
