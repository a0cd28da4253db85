package metricsserver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// podTimeout bounds the reading of all pods, of which there are many more than nodes.
const podTimeout = 2 * time.Minute

// PodSource reads the present usage of pods from the resource metrics API. A value covers about 15 seconds.
type PodSource struct{ client rest.Interface }

var _ source.PodSource = &PodSource{}

// NewPodSource returns a source that reads the API with a client for the configuration. It fails if the configuration is not valid.
func NewPodSource(cfg *rest.Config) (*PodSource, error) {
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &PodSource{client}, nil
}

// Name implements source.PodSource.
func (s *PodSource) Name() string { return "KubernetesMetricsServer" }

// FetchPods implements source.PodSource. It sends one request. A pod counts with the sum of its containers, where all of them have
// the resource.
func (s *PodSource) FetchPods(ctx context.Context, pods int, visit func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	err := readItems(ctx, s.client, "pods", pods, func(object *podMetrics) {
		for r := range load.ResourceCount {
			if usage, ok := object.usage(r); ok {
				visit(&source.PodUsage{Namespace: object.Metadata.Namespace, Pod: object.Metadata.Name, Resource: r, Usage: usage})
			}
		}
	})
	if err != nil {
		err = explain(err, "pods", podTimeout, pods)
	}
	for r := range failed {
		failed[r] = err
	}
	return failed
}

type podMetrics struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Containers []struct {
		Usage map[corev1.ResourceName]quantity.Bounded `json:"usage"`
	} `json:"containers"`
}

// usage returns the sum over all containers, in milliCPU or bytes, and whether there is one.
func (m *podMetrics) usage(r load.Resource) (sum float64, ok bool) {
	for i := range m.Containers {
		value, ok := m.Containers[i].Usage[corev1.ResourceName(r.String())]
		if !ok {
			return 0, false
		}
		used := resource.Quantity(value)
		sum += used.AsApproximateFloat64()
	}
	if r == load.CPU {
		sum *= 1000
	}
	return sum, len(m.Containers) > 0
}
