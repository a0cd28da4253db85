package loadwatcher

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
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
	return o.validLoad(fs)
}

func (o *options) validateListening() error {
	if _, _, err := net.SplitHostPort(o.listenAddress); err != nil {
		return fmt.Errorf("--listen-address: %w: write host:port, or :port for all addresses", err)
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
	var spec config.LoadSpec
	versioned := o.load.DeepCopy()
	if !fs.Changed(flagTimeout) {
		versioned.MetricProvider.Timeout = nil // its default depends on the age
	}
	v1.SetDefaults_LoadSpec(versioned)
	v1.SetDefaults_MetricProviderSpec(&versioned.MetricProvider)
	if err := v1.Convert_v1_LoadSpec_To_config_LoadSpec(versioned, &spec, nil); err != nil {
		return config.LoadSpec{}, err
	}
	settings := o.settings()
	spec.CompleteFromEnvironment(func(variable string) string {
		for i := range settings {
			if slices.Contains(settings[i].others, variable) && fs.Changed(settings[i].flag) {
				return ""
			}
		}
		return os.Getenv(variable)
	})
	mistakes := append(mistakesIn(validation.ValidateLoadSpec(nil, &spec)),
		mistakesIn(validation.ValidateCredentials(nil, &spec))...)
	for _, window := range o.windows {
		other := spec
		other.Window.Duration = window
		for _, mistake := range mistakesIn(validation.ValidateLoadSpec(nil, &other)) {
			if mistake.Field == "window" {
				mistake.Field = "windows"
				mistakes = append(mistakes, mistake)
			}
		}
	}
	var errs []error
	for _, mistake := range mistakes {
		errs = append(errs, fmt.Errorf("%s: %s", nameOf(settings, mistake.Field), mistake.ErrorBody()))
	}
	return spec, utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// mistakesIn returns the field errors of a validation error.
func mistakesIn(err error) (all []*field.Error) {
	if found, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, err := range found.Errors() {
			mistake, _ := errors.AsType[*field.Error](err)
			all = append(all, mistake)
		}
	}
	return all
}

// nameOf returns the name of a LoadSpec's field in errors: that of its flag.
func nameOf(settings []setting, path string) string {
	path, _, _ = strings.Cut(path, "[")
	for i := range settings {
		if s := &settings[i]; s.field == path || s.flag == path {
			return "--" + s.flag + s.variables()
		}
	}
	switch path {
	case "metricProvider.applicationKey":
		return "env " + config.ApplicationKeyVariable
	case "metricProvider.token":
		return "env " + config.TokenVariable
	case "metricProvider.queries":
		return "--cpu-query, --memory-query"
	}
	return path
}

func (o *options) checkQueries(provider *config.MetricProviderSpec) []finding.Finding {
	return slices.Concat(finding.CheckLoadQuery("--cpu-query", o.queries.CPU, provider),
		finding.CheckLoadQuery("--memory-query", o.queries.Memory, provider))
}
