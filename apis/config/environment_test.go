package config_test

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCompleteFromEnvironment(t *testing.T) {
	type spec = config.MetricProviderSpec
	environment := map[string]string{
		"METRICS_PROVIDER_TOKEN":    "token",
		"METRICS_PROVIDER_APP_KEY":  "key",
		"SIGNALFX_CLUSTER_NAME":     "s-cluster",
		"SIGNALFX_HOST_NAME_SUFFIX": ".s",
		"DATADOG_CLUSTER_NAME":      "d-cluster",
		"DATADOG_HOST_NAME_SUFFIX":  ".d",
	}
	for _, tt := range []struct {
		name, watcher string
		given, want   spec
	}{
		{"SignalFx", "", spec{Type: config.SignalFx}, spec{Type: config.SignalFx, Token: "token", ClusterName: "s-cluster", HostNameSuffix: ".s"}},
		{"Datadog", "", spec{Type: config.Datadog}, spec{Type: config.Datadog, Token: "token", ApplicationKey: "key", ClusterName: "d-cluster", HostNameSuffix: ".d"}},
		{
			"arguments win", "", spec{Type: config.Datadog, Token: "t", ApplicationKey: "k", ClusterName: "c", HostNameSuffix: "h"},
			spec{Type: config.Datadog, Token: "t", ApplicationKey: "k", ClusterName: "c", HostNameSuffix: "h"},
		},
		{
			"files win too", "", spec{Type: config.Datadog, TokenFile: "t", ApplicationKeyFile: "k"},
			spec{Type: config.Datadog, TokenFile: "t", ApplicationKeyFile: "k", ClusterName: "d-cluster", HostNameSuffix: ".d"},
		},
		{"Prometheus has no such variables", "", spec{Type: config.Prometheus}, spec{Type: config.Prometheus}},
		{"a load-watcher service never gets the token", "http://load-watcher:2020", spec{Type: config.SignalFx}, spec{Type: config.SignalFx}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := config.LoadSpec{WatcherAddress: tt.watcher, MetricProvider: tt.given}
			s.CompleteFromEnvironment(func(variable string) string { return environment[variable] })
			check.Equal(t, "result", tt.want, s.MetricProvider)
		})
	}
}
