package live

import (
	"context"
	"errors"
	"fmt"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Prometheus returns the URL and the settings for a configuration's first Prometheus. Without a configuration, the options name it.
func (c *Connection) Prometheus(ctx context.Context, configuration *schedulerconfig.KubeSchedulerConfiguration, o SourceOptions,
) (string, httpclient.Config, error) {
	if err := o.Validate(); err != nil {
		return "", httpclient.Config{}, err
	}
	if configuration == nil {
		return o.Address, httpclient.Config{BearerTokenFile: o.TokenFile, CAFile: o.CAFile}, nil
	}
	for i := range configuration.Profiles {
		for _, plugin := range configuration.Profiles[i].PluginConfig {
			spec := config.LoadSpecOf(plugin.Args)
			if spec == nil || !spec.ReadsPrometheus() {
				continue
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
	}
	return "", httpclient.Config{}, errors.New("the configuration reads no Prometheus; write --source-address with the URL of one")
}
