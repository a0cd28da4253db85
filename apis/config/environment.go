package config

// Environment variables that known deployments set for SignalFx and Datadog.
const (
	// TokenVariable has SignalFx's access token or Datadog's API key, and ApplicationKeyVariable Datadog's application key.
	TokenVariable          = "METRICS_PROVIDER_TOKEN"
	ApplicationKeyVariable = "METRICS_PROVIDER_APP_KEY"
)

// HostFilterVariables returns the names of the environment variables for ClusterName and HostNameSuffix of the type, if any.
func HostFilterVariables(t MetricProviderType) (clusterName, hostNameSuffix string) {
	switch t {
	case SignalFx:
		return "SIGNALFX_CLUSTER_NAME", "SIGNALFX_HOST_NAME_SUFFIX"
	case Datadog:
		return "DATADOG_CLUSTER_NAME", "DATADOG_HOST_NAME_SUFFIX"
	}
	return "", ""
}

// IsHosted reports whether load is read from a service outside of the cluster, which has accounts of its own.
func (s *LoadSpec) IsHosted() bool {
	return s.WatcherAddress == "" && (s.MetricProvider.Type == SignalFx || s.MetricProvider.Type == Datadog)
}

// ReadsPrometheus reports whether load is read from Prometheus.
func (s *LoadSpec) ReadsPrometheus() bool {
	return s.WatcherAddress == "" && s.MetricProvider.Type == Prometheus
}

// CompleteFromEnvironment sets empty fields of a SignalFx or Datadog spec from environment variables.
// lookup returns a variable's value, as os.Getenv does. Other specs do not change.
func (s *LoadSpec) CompleteFromEnvironment(lookup func(variable string) string) {
	if !s.IsHosted() {
		return
	}
	provider := &s.MetricProvider
	clusterName, hostNameSuffix := HostFilterVariables(provider.Type)
	if provider.ClusterName == "" {
		provider.ClusterName = lookup(clusterName)
	}
	if provider.HostNameSuffix == "" {
		provider.HostNameSuffix = lookup(hostNameSuffix)
	}
	if provider.Token == "" && provider.TokenFile == "" {
		provider.Token = Secret(lookup(TokenVariable))
	}
	if provider.Type == Datadog && provider.ApplicationKey == "" && provider.ApplicationKeyFile == "" {
		provider.ApplicationKey = Secret(lookup(ApplicationKeyVariable))
	}
}
