package cluster

import (
	"context"
	"errors"
	"fmt"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Prometheus returns the URL and the settings for a configuration's first Prometheus. If nil or without one, the options name it.
func (c *Connection) Prometheus(ctx context.Context, configuration *schedulerconfig.KubeSchedulerConfiguration, o SourceOptions,
) (string, httpclient.Config, error) {
	if err := o.Validate(); err != nil {
		return "", httpclient.Config{}, err
	}
	spec := firstPrometheus(configuration)
	switch {
	case spec == nil && o.Address == "":
		return "", httpclient.Config{}, errors.New("the configuration reads no Prometheus; write --source-address with the URL of one")
	case spec == nil:
		return o.Address, httpclient.Config{BearerTokenFile: o.TokenFile, CAFile: o.CAFile}, nil
	}
	access, err := c.access(ctx, Options{Configuration: configuration, Source: o})
	if err != nil {
		return "", httpclient.Config{}, err
	}
	address, client, err := sources.ReachPrometheus(ctx, *spec, access)
	if err != nil {
		return "", httpclient.Config{}, fmt.Errorf("reach Prometheus at %s: %w", spec.MetricProvider.Address, err)
	}
	return address, client, nil
}

// firstPrometheus returns the first Prometheus that the configuration's plugins read, or nil.
func firstPrometheus(configuration *schedulerconfig.KubeSchedulerConfiguration) *config.LoadSpec {
	if configuration == nil {
		return nil
	}
	for _, request := range plugins.LoadRequests(configuration) {
		if request.Spec.ReadsPrometheus() {
			return &request.Spec
		}
	}
	return nil
}
