package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
)

// complete adds the environment and the defaults to the flags, validates all settings, and returns the load to read.
// An error has one line, names the flag and the variable, and shows no secret.
func (o *options) complete(fs *pflag.FlagSet) (config.LoadSpec, error) {
	if err := o.readEnvironment(fs); err != nil {
		return config.LoadSpec{}, err
	}
	if err := o.validateListening(); err != nil {
		return config.LoadSpec{}, err
	}
	if o.queries != (v1.LoadQueries{}) {
		o.load.MetricProvider.Queries = &o.queries
	}
	if !fs.Changed(flagTimeout) {
		o.load.MetricProvider.Timeout = nil // its default depends on the age
	}
	return o.validLoad(fs)
}

func (o *options) validateListening() error {
	if _, _, err := net.SplitHostPort(o.listenAddress); err != nil {
		return fmt.Errorf("--listen-address: %w: write host:port, or :port for all addresses", err)
	}
	if o.maxConnections < connectionsPerRequest {
		return fmt.Errorf("--max-connections: %d: set at least %d", o.maxConnections, connectionsPerRequest)
	}
	if (o.tlsCertFile == "") != (o.tlsPrivateKeyFile == "") {
		return errors.New("--tls-cert-file, --tls-private-key-file: one of them is set: set both, or none to serve plain HTTP")
	}
	if o.tlsCertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(o.tlsCertFile, o.tlsPrivateKeyFile); err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	return nil
}

// validLoad returns the load to read, validated by the rules of the plugins' arguments.
func (o *options) validLoad(fs *pflag.FlagSet) (config.LoadSpec, error) {
	types := []config.MetricProviderType{config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog}
	if t := o.load.MetricProvider.Type; !slices.Contains(types, t) {
		return config.LoadSpec{}, fmt.Errorf("%s: %q is none of KubernetesMetricsServer, Prometheus, SignalFx and Datadog",
			nameOf(flagProviderName), t)
	}
	var spec config.LoadSpec
	versioned := o.load.DeepCopy()
	v1.SetDefaults_LoadSpec(versioned)
	v1.SetDefaults_MetricProviderSpec(&versioned.MetricProvider)
	if err := v1.Convert_v1_LoadSpec_To_config_LoadSpec(versioned, &spec, nil); err != nil {
		return config.LoadSpec{}, err
	}
	spec.CompleteFromEnvironment(o.hostedVariable(fs))
	var errs []error
	for _, mistake := range mistakes(&spec) {
		path, _, _ := strings.Cut(mistake.Field, "[")
		errs = append(errs, inFlags(mistake, flagOf(path, spec.MetricProvider.Type)))
	}
	for _, window := range o.windows {
		other := spec
		other.Window.Duration = window
		for _, mistake := range mistakes(&other) {
			if mistake.Field == "window" {
				errs = append(errs, inFlags(mistake, nameOf(flagWindows)))
			}
		}
	}
	return spec, utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

func (o *options) checkQueries(provider *config.MetricProviderSpec) []configlint.Finding {
	return slices.Concat(
		configlint.CheckLoadQuery("--"+flagCPUQuery, o.queries.CPU, provider),
		configlint.CheckLoadQuery("--"+flagMemoryQuery, o.queries.Memory, provider),
	)
}

func mistakes(spec *config.LoadSpec) []*field.Error {
	var found []*field.Error
	files := validation.Files{Token: boundedfile.ReadToken, CA: boundedfile.ReadCA}
	validations := []error{
		validation.ValidateLoadSpec(nil, spec).ToAggregate(),
		validation.ValidateCredentials(nil, spec, files),
	}
	for _, err := range validations {
		all, ok := errors.AsType[utilerrors.Aggregate](err)
		if !ok {
			continue
		}
		for _, err := range all.Errors() {
			mistake, ok := errors.AsType[*field.Error](err)
			if !ok {
				mistake = field.InternalError(nil, err)
			}
			found = append(found, mistake)
		}
	}
	return found
}

func flagsByField() map[string]string {
	return map[string]string{
		"metricProvider.address":            flagProviderAddress,
		"metricProvider.tokenFile":          flagTokenFile,
		"metricProvider.applicationKeyFile": flagApplicationKeyFile,
		"metricProvider.clusterName":        flagClusterName,
		"metricProvider.hostNameSuffix":     flagHostNameSuffix,
		"metricProvider.caFile":             flagCAFile,
		"metricProvider.dialect":            flagDialect,
		"metricProvider.queries":            flagCPUQuery,
		"metricProvider.queries.cpu":        flagCPUQuery,
		"metricProvider.queries.memory":     flagMemoryQuery,
		"metricProvider.nodeLabels":         flagNodeLabels,
		"metricProvider.timeout":            flagTimeout,
		"window":                            flagWindow,
		"refreshInterval":                   flagRefreshInterval,
		"maxAge":                            flagMaxAge,
		"driftTolerance":                    flagDriftTolerance,
	}
}

// flagOf returns the flag's name in errors for a field of a LoadSpec with a type of provider.
func flagOf(path string, provider config.MetricProviderType) string {
	flag, ok := flagsByField()[path]
	switch variable := filterVariables(provider)[flag]; {
	case variable != "":
		return "--" + flag + " (env " + variable + ")"
	case flag == flagTokenFile && provider != config.Prometheus:
		return "--" + flag + " (or env " + config.TokenVariable + ")"
	case flag == flagApplicationKeyFile:
		return "--" + flag + " (or env " + config.ApplicationKeyVariable + ")"
	case ok:
		return nameOf(flag)
	case path == "metricProvider.applicationKey":
		return "env " + config.ApplicationKeyVariable
	case path == "metricProvider.token":
		return "env " + config.TokenVariable
	}
	return path
}

// inFlags returns a field's mistake as a flag's. Its detail may advise on further fields, which get the names of their flags.
func inFlags(mistake *field.Error, name string) error {
	named := *mistake
	named.Detail = strings.NewReplacer(
		"metricProvider.tokenFile", "--"+flagTokenFile,
		"applicationKeyFile", "--"+flagApplicationKeyFile,
		"applicationKey", "env "+config.ApplicationKeyVariable,
		"tokenFile", "--"+flagTokenFile,
		"refreshInterval", "--"+flagRefreshInterval,
		"maxAge", "--"+flagMaxAge,
		"leave the field out", "leave the flag out",
	).Replace(mistake.Detail)
	return fmt.Errorf("%s: %s", name, named.ErrorBody())
}
