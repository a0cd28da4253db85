package validation_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
)

// secret is part of every value in these tests that errors must not show.
const secret = "hunter2"

// refusal is an expected error: the field's path below args, and parts of the message.
type refusal struct {
	path  string
	parts []string
}

func refused(path string, parts ...string) []refusal { return []refusal{{path: path, parts: parts}} }

// checkRefusals fails unless err holds the expected errors in their order.
func checkRefusals(t *testing.T, err error, want []refusal) {
	t.Helper()
	var got []error
	if err != nil {
		aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
		if !ok {
			t.Fatalf("%T is not an aggregate: %v", err, err)
		}
		got = aggregate.Errors()
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows a secret: %v", err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is not one line: %v", err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d errors, want %d: %v", len(got), len(want), err)
	}
	for i := range want {
		fieldErr, ok := errors.AsType[*field.Error](got[i])
		if !ok {
			t.Fatalf("%T is not a field error: %v", got[i], got[i])
		}
		if wantPath := "args." + want[i].path; fieldErr.Field != wantPath {
			t.Errorf("path %s, want %s: %v", fieldErr.Field, wantPath, fieldErr)
		}
		for _, part := range want[i].parts {
			if !strings.Contains(fieldErr.ErrorBody(), part) {
				t.Errorf("the error lacks %q: %v", part, fieldErr)
			}
		}
	}
}

func defaulted(t *testing.T, kind string) runtime.Object {
	t.Helper()
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	versioned, err := s.New(v1.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		t.Fatal(err)
	}
	s.Default(versioned)
	internal, err := s.ConvertToVersion(versioned, config.SchemeGroupVersion)
	if err != nil {
		t.Fatal(err)
	}
	return internal
}

func targetLoadPackingArgs(t *testing.T) *config.TargetLoadPackingArgs {
	t.Helper()
	return defaulted(t, "TargetLoadPackingArgs").(*config.TargetLoadPackingArgs)
}

func loadVariationRiskBalancingArgs(t *testing.T) *config.LoadVariationRiskBalancingArgs {
	t.Helper()
	return defaulted(t, "LoadVariationRiskBalancingArgs").(*config.LoadVariationRiskBalancingArgs)
}

func TestValidateTargetLoadPackingArgs(t *testing.T) {
	multiplierRule := []string{"finite decimal number of at least 0", `write one such as "1.5"`}
	multiplier := func(value string) func(*config.TargetLoadPackingArgs) {
		return func(args *config.TargetLoadPackingArgs) { args.DefaultRequestsMultiplier = value }
	}
	target := func(value int64) func(*config.TargetLoadPackingArgs) {
		return func(args *config.TargetLoadPackingArgs) { args.TargetUtilization = value }
	}
	ratio := func(value float64) func(*config.TargetLoadPackingArgs) {
		return func(args *config.TargetLoadPackingArgs) { args.MaxLimitRequestRatio = value }
	}
	for _, tt := range []struct {
		name   string
		change func(*config.TargetLoadPackingArgs)
		want   []refusal
	}{
		{name: "the defaults are accepted", change: func(*config.TargetLoadPackingArgs) {}},
		{name: "a target of 1 is accepted", change: target(1)},
		{name: "a target of 99 is accepted", change: target(99)},
		{name: "a target of 0 is refused", change: target(0), want: refused("targetUtilization", "0", "[1, 99]", "write the CPU utilization")},
		{name: "a target of 100 is refused", change: target(100), want: refused("targetUtilization", "100", "[1, 99]")},
		{name: "a negative target is refused", change: target(-1), want: refused("targetUtilization", "-1", "[1, 99]")},
		{name: "a target above 100 is refused", change: target(150), want: refused("targetUtilization", "150", "[1, 99]")},
		{name: "a multiplier of 0 is accepted", change: multiplier("0")},
		{name: "a multiplier with a point is accepted", change: multiplier("1.25")},
		{name: "a multiplier in letters is refused", change: multiplier("abc"), want: refused("defaultRequestsMultiplier", append(multiplierRule, `"abc"`)...)},
		{name: "a multiplier of NaN is refused", change: multiplier("NaN"), want: refused("defaultRequestsMultiplier", append(multiplierRule, `"NaN"`)...)},
		{name: "a multiplier of Inf is refused", change: multiplier("Inf"), want: refused("defaultRequestsMultiplier", append(multiplierRule, `"Inf"`)...)},
		{name: "a multiplier beyond what a float holds is refused", change: multiplier("1e999"), want: refused("defaultRequestsMultiplier", multiplierRule...)},
		{name: "a negative multiplier is refused", change: multiplier("-1"), want: refused("defaultRequestsMultiplier", append(multiplierRule, `"-1"`)...)},
		{name: "an empty multiplier is refused", change: multiplier(""), want: refused("defaultRequestsMultiplier", append(multiplierRule, `""`)...)},
		{name: "a multiplier with a blank is refused", change: multiplier(" 1.5"), want: refused("defaultRequestsMultiplier", multiplierRule...)},
		{name: "a ratio of 1 is accepted", change: ratio(1)},
		{name: "a ratio below 1 is refused", change: ratio(0.5), want: refused("maxLimitRequestRatio", "0.5", "at least 1", "such as 10")},
		{name: "a ratio of NaN is refused", change: ratio(math.NaN()), want: refused("maxLimitRequestRatio", "at least 1")},
		{name: "an infinite ratio is refused", change: ratio(math.Inf(1)), want: refused("maxLimitRequestRatio", "finite")},
		{
			name: "a negative default request is refused",
			change: func(args *config.TargetLoadPackingArgs) {
				args.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-100m")}
			},
			want: refused("defaultRequests[cpu]", `"-100m"`, "at least 0", "such as 500m"),
		},
		{
			name: "default requests of resources that are not read are refused",
			change: func(args *config.TargetLoadPackingArgs) {
				args.DefaultRequests = corev1.ResourceList{"cpuu": resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
			want: refused("defaultRequests[cpuu]", `"cpuu"`, `supported values: "cpu", "memory"`),
		},
		{
			name: "default requests of zero, and none at all, are accepted",
			change: func(args *config.TargetLoadPackingArgs) {
				args.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}
			},
		},
		{
			name: "an unknown missingLoad is refused", change: func(args *config.TargetLoadPackingArgs) { args.MissingLoad = "Highest" },
			want: refused("missingLoad", `"Highest"`, `"Requests"`, `"Neutral"`, `"Lowest"`),
		},
		{
			name: "all errors are reported",
			change: func(args *config.TargetLoadPackingArgs) {
				args.Window.Duration = 0
				args.MissingLoad = "requests"
				args.TargetUtilization = 0
				args.DefaultRequests = corev1.ResourceList{
					corev1.ResourceMemory: resource.MustParse("-1"),
					corev1.ResourceCPU:    resource.MustParse("-1"),
				}
				args.DefaultRequestsMultiplier = "x"
			},
			want: []refusal{
				{path: "window"},
				{path: "missingLoad"},
				{path: "targetUtilization"},
				{path: "defaultRequests[cpu]"},
				{path: "defaultRequests[memory]"},
				{path: "defaultRequestsMultiplier"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := targetLoadPackingArgs(t)
			tt.change(args)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), args), tt.want)
		})
	}
}

func TestValidateLoadVariationRiskBalancingArgs(t *testing.T) {
	margin := func(value float64) func(*config.LoadVariationRiskBalancingArgs) {
		return func(args *config.LoadVariationRiskBalancingArgs) { args.SafeVarianceMargin = value }
	}
	sensitivity := func(value float64) func(*config.LoadVariationRiskBalancingArgs) {
		return func(args *config.LoadVariationRiskBalancingArgs) { args.SafeVarianceSensitivity = value }
	}
	for _, tt := range []struct {
		name   string
		change func(*config.LoadVariationRiskBalancingArgs)
		want   []refusal
	}{
		{name: "the defaults are accepted", change: func(*config.LoadVariationRiskBalancingArgs) {}},
		{name: "a margin of 0 is accepted", change: margin(0)},
		{name: "a sensitivity of 0 is accepted", change: sensitivity(0)},
		{name: "a margin above 1 is accepted", change: margin(2.5)},
		{name: "a negative margin is refused", change: margin(-0.5), want: refused("safeVarianceMargin", "-0.5", "at least 0", "write 0")},
		{name: "a margin of NaN is refused", change: margin(math.NaN()), want: refused("safeVarianceMargin", "NaN", "at least 0")},
		{name: "an infinite margin is refused", change: margin(math.Inf(1)), want: refused("safeVarianceMargin", "+Inf", "finite")},
		{name: "a negative sensitivity is refused", change: sensitivity(-1), want: refused("safeVarianceSensitivity", "-1", "at least 0", "write 0")},
		{name: "a sensitivity of NaN is refused", change: sensitivity(math.NaN()), want: refused("safeVarianceSensitivity", "NaN", "at least 0")},
		{name: "an infinite sensitivity is refused", change: sensitivity(math.Inf(1)), want: refused("safeVarianceSensitivity", "+Inf", "finite")},
		{
			name: "a negative default request is refused",
			change: func(args *config.LoadVariationRiskBalancingArgs) {
				args.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-100m")}
			},
			want: refused("defaultRequests[cpu]", `"-100m"`, "at least 0"),
		},
		{
			name: "default requests of cpu and memory are accepted",
			change: func(args *config.LoadVariationRiskBalancingArgs) {
				args.DefaultRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
		},
		{
			name: "a default request of a resource that is not read is refused",
			change: func(args *config.LoadVariationRiskBalancingArgs) {
				args.DefaultRequests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
			},
			want: refused("defaultRequests[nvidia.com/gpu]", `"nvidia.com/gpu"`, `supported values: "cpu", "memory"`),
		},
		{
			name:   "an unknown missingLoad is refused",
			change: func(args *config.LoadVariationRiskBalancingArgs) { args.MissingLoad = "Highest" },
			want:   refused("missingLoad", `"Highest"`, `"Requests"`, `"Neutral"`, `"Lowest"`),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := loadVariationRiskBalancingArgs(t)
			tt.change(args)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), args), tt.want)
		})
	}
}

func TestValidatePredictedPeakArgs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.PredictedPeakArgs)
		want   []refusal
	}{
		{name: "the defaults are accepted", change: func(*config.PredictedPeakArgs) {}},
		{name: "Pack is accepted", change: func(args *config.PredictedPeakArgs) { args.Strategy = config.StrategyPack }},
		{
			name: "an unknown strategy is refused", change: func(args *config.PredictedPeakArgs) { args.Strategy = "spread" },
			want: refused("strategy", `"spread"`, `"Spread"`, `"Pack"`),
		},
		{
			name: "a target of 0 is refused", change: func(args *config.PredictedPeakArgs) { args.Target = 0 },
			want: refused("target", "0", "[1, 99]", "write the predicted peak"),
		},
		{
			name: "a target of 100 is refused", change: func(args *config.PredictedPeakArgs) { args.Target = 100 },
			want: refused("target", "100", "[1, 99]"),
		},
		{
			name: "an unknown missingLoad is refused", change: func(args *config.PredictedPeakArgs) { args.MissingLoad = "Pass" },
			want: refused("missingLoad", `"Pass"`, `"Requests"`),
		},
		{
			name: "a wrong source is refused", change: func(args *config.PredictedPeakArgs) { args.WatcherAddress = "nowhere" },
			want: refused("watcherAddress", "nowhere"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := defaulted(t, "PredictedPeakArgs").(*config.PredictedPeakArgs)
			tt.change(args)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), args), tt.want)
		})
	}
}

func TestValidateDecisionRecordArgs(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		eventsPerSecond, burst int64
		want                   []refusal
	}{
		{name: "the least is accepted", eventsPerSecond: 1, burst: 1},
		{name: "the most is accepted", eventsPerSecond: 10, burst: 100},
		{name: "no Event is refused", eventsPerSecond: 0, burst: 1, want: refused("eventsPerSecond", "0", "must be in [1, 10]")},
		{name: "too many Events are refused", eventsPerSecond: 11, burst: 1, want: refused("eventsPerSecond", "11", "[1, 10]")},
		{name: "no burst is refused", eventsPerSecond: 1, burst: 0, want: refused("burst", "0", "must be in [1, 100]")},
		{name: "too long a burst is refused", eventsPerSecond: 1, burst: 101, want: refused("burst", "101", "[1, 100]")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := &config.DecisionRecordArgs{EventsPerSecond: tt.eventsPerSecond, Burst: tt.burst}
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), args), tt.want)
		})
	}
}

// How peaks are predicted is validated alike in the arguments of PredictedPeak and of LoadThreshold.
func TestValidatePeakSpec(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.PeakSpec)
		want   []refusal
	}{
		{name: "a history of 10m is accepted", change: func(s *config.PeakSpec) {
			s.History.Duration, s.MinHistory.Duration = 10*time.Minute, 10*time.Minute
		}},
		{name: "a history of 30 days is accepted", change: func(s *config.PeakSpec) { s.History.Duration = 720 * time.Hour }},
		{
			name: "a short history is refused", change: func(s *config.PeakSpec) { s.History.Duration = 9 * time.Minute },
			want: refused("history", `"9m0s"`, "[10m0s, 720h0m0s]", "such as 24h"),
		},
		{
			name: "a long history is refused", change: func(s *config.PeakSpec) { s.History.Duration = 721 * time.Hour },
			want: refused("history", `"721h0m0s"`),
		},
		{name: "a minHistory of 0 is accepted", change: func(s *config.PeakSpec) { s.MinHistory.Duration = 0 }},
		{
			name: "a negative minHistory is refused", change: func(s *config.PeakSpec) { s.MinHistory.Duration = -1 },
			want: refused("minHistory", "at least 0", "such as 30m"),
		},
		{
			name: "a minHistory above history is refused", change: func(s *config.PeakSpec) { s.MinHistory.Duration = 25 * time.Hour },
			want: refused("minHistory", `"25h0m0s"`, "at most history (24h0m0s)"),
		},
		{name: "a label with a prefix is accepted", change: func(s *config.PeakSpec) { s.WorkloadLabel = "app.kubernetes.io/name" }},
		{
			name: "what cannot be a label is refused", change: func(s *config.PeakSpec) { s.WorkloadLabel = "a b" },
			want: refused("workloadLabel", `"a b"`, "key of a label, such as app.kubernetes.io/name"),
		},
		{name: "deviations of 0 are accepted", change: func(s *config.PeakSpec) { s.Deviations = 0 }},
		{
			name: "negative deviations are refused", change: func(s *config.PeakSpec) { s.Deviations = -1 },
			want: refused("deviations", "-1", "at least 0", "write 0"),
		},
		{
			name: "deviations of NaN are refused", change: func(s *config.PeakSpec) { s.Deviations = math.NaN() },
			want: refused("deviations", "at least 0"),
		},
		{
			name: "a requestMultiplier of 0 is refused", change: func(s *config.PeakSpec) { s.Unknown.RequestMultiplier = 0 },
			want: refused("unknown.requestMultiplier", "0", "above 0", "such as 1.5"),
		},
		{
			name: "an infinite requestMultiplier is refused", change: func(s *config.PeakSpec) { s.Unknown.RequestMultiplier = math.Inf(1) },
			want: refused("unknown.requestMultiplier", "finite"),
		},
		{name: "an empty default is accepted", change: func(s *config.PeakSpec) { s.Unknown.Default = nil }},
		{
			name: "a negative default is refused",
			change: func(s *config.PeakSpec) {
				s.Unknown.Default = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("-1")}
			},
			want: refused("unknown.default[memory]", `"-1"`, "at least 0"),
		},
		{
			name: "a ratio below 1 is refused", change: func(s *config.PeakSpec) { s.MaxLimitRequestRatio = 0.5 },
			want: refused("maxLimitRequestRatio", "0.5", "at least 1"),
		},
		{
			name: "all errors are reported, and minHistory is not compared with a wrong history",
			change: func(s *config.PeakSpec) {
				s.History.Duration, s.WorkloadLabel, s.Deviations, s.MaxLimitRequestRatio = 0, "/", -1, 0
			},
			want: []refusal{{path: "history"}, {path: "workloadLabel"}, {path: "deviations"}, {path: "maxLimitRequestRatio"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := field.NewPath("args")
			t.Run("PredictedPeak", func(t *testing.T) {
				args := defaulted(t, "PredictedPeakArgs").(*config.PredictedPeakArgs)
				tt.change(&args.PeakSpec)
				checkRefusals(t, validation.ValidateArgs(path, args), tt.want)
			})
			t.Run("LoadThreshold", func(t *testing.T) {
				args := defaulted(t, "LoadThresholdArgs").(*config.LoadThresholdArgs)
				tt.change(&args.PredictedPeak)
				var want []refusal
				for _, r := range tt.want {
					want = append(want, refusal{path: "predictedPeak." + r.path, parts: r.parts})
				}
				checkRefusals(t, validation.ValidateArgs(path, args), want)
			})
		})
	}
}

func TestValidateTargetLoadPackingArgs_WithoutPath(t *testing.T) {
	args := targetLoadPackingArgs(t)
	args.MetricProvider.Timeout.Duration = -1
	err := validation.ValidateArgs(nil, args)
	if err == nil || !strings.HasPrefix(err.Error(), "metricProvider.timeout: ") {
		t.Errorf("got %v", err)
	}
}

// loadSpecTest is a test case for the arguments that all plugins share.
type loadSpecTest struct {
	name   string
	change func(*config.LoadSpec)
	want   []refusal
}

func runLoadSpecTests(t *testing.T, tests []loadSpecTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := field.NewPath("args")
			t.Run("TargetLoadPacking", func(t *testing.T) {
				args := targetLoadPackingArgs(t)
				tt.change(&args.LoadSpec)
				checkRefusals(t, withFiles(path, &args.LoadSpec, validation.ValidateArgs(path, args)), tt.want)
			})
			t.Run("LoadVariationRiskBalancing", func(t *testing.T) {
				args := loadVariationRiskBalancingArgs(t)
				tt.change(&args.LoadSpec)
				checkRefusals(t, withFiles(path, &args.LoadSpec, validation.ValidateArgs(path, args)), tt.want)
			})
		})
	}
}

// withFiles adds to err what is wrong with the files of the spec.
func withFiles(path *field.Path, spec *config.LoadSpec, err error) error {
	return utilerrors.Flatten(utilerrors.NewAggregate([]error{err, validation.ValidateCredentials(path, spec, files)}))
}

func TestValidateLoadSpec_Addresses(t *testing.T) {
	// watcherAddress and the address of Prometheus follow the same rules.
	shape := []string{"http:// or https:// URL with a host", "write one such as"}
	var tests []loadSpecTest
	for _, tt := range []struct {
		name    string
		address string
		parts   []string
	}{
		{name: "http is accepted", address: "http://prometheus:9090"},
		{name: "https is accepted", address: "https://prometheus"},
		{name: "a path prefix is accepted", address: "https://mimir.example.com:8443/prometheus/"},
		{name: "IPv6 is accepted", address: "http://[fd00::1]:9090"},
		{name: "a relative address is refused", address: "/prometheus", parts: append(shape, `"/prometheus"`)},
		{name: "ftp is refused", address: "ftp://prometheus:9090", parts: append(shape, `"ftp://prometheus:9090"`)},
		{name: "a name and port without scheme is refused", address: "prometheus:9090", parts: append(shape, `"prometheus:9090"`)},
		{name: "an IP and port without scheme is refused", address: "10.0.0.1:9090", parts: shape},
		{name: "a name alone is refused", address: "prometheus", parts: shape},
		{name: "a URL without host is refused", address: "http://", parts: shape},
		{name: "a URL with a port but without host is refused", address: "http://:9090", parts: shape},
		{name: "a URL with a blank before it is refused", address: " http://prometheus", parts: shape},
		{name: "a line break is refused", address: "http://prometheus\n", parts: shape},
		{name: "a port in letters is refused", address: "http://prometheus:http", parts: shape},
		{name: "a port beyond the range is refused", address: "http://prometheus:90900", parts: []string{"[1, 65535]", "such as"}},
		{name: "a user and password are refused and hidden", address: "https://admin:hunter2@prometheus", parts: []string{`"https://<redacted>"`, "user name or password", "tokenFile"}},
		{name: "a user and password without scheme are refused and hidden", address: "admin:hunter2@prometheus", parts: append(shape, "<redacted>")},
		{name: "a password that breaks the URL is refused and hidden", address: "https://admin:hunter2#%@prometheus", parts: append(shape, "<redacted>")},
		{name: "a query is refused and hidden", address: "https://prometheus/?token=hunter2", parts: []string{`"https://<redacted>"`, "query or fragment", "end it before"}},
		{name: "an empty query is refused", address: "https://prometheus/?", parts: []string{"query or fragment"}},
		{name: "a fragment is refused and hidden", address: "https://prometheus/#hunter2", parts: []string{"query or fragment"}},
		{name: "an empty fragment is refused", address: "https://prometheus/#", parts: []string{"query or fragment"}},
	} {
		watcher := loadSpecTest{
			name: "watcherAddress: " + tt.name, change: func(spec *config.LoadSpec) { spec.WatcherAddress = tt.address },
		}
		prometheus := loadSpecTest{
			name: "address: " + tt.name,
			change: func(spec *config.LoadSpec) {
				spec.MetricProvider.Type = config.Prometheus
				spec.MetricProvider.Address = tt.address
			},
		}
		if tt.parts != nil {
			watcher.want = refused("watcherAddress", tt.parts...)
			prometheus.want = refused("metricProvider.address", tt.parts...)
		}
		tests = append(tests, watcher, prometheus)
	}
	runLoadSpecTests(t, tests)
}

func TestValidateLoadSpec_MetricProvider(t *testing.T) {
	prometheus := func(change func(*config.MetricProviderSpec)) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) {
			spec.MetricProvider.Type = config.Prometheus
			spec.MetricProvider.Address = "http://prometheus:9090"
			change(&spec.MetricProvider)
		}
	}
	signalFx := func(change func(*config.MetricProviderSpec)) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) {
			spec.MetricProvider.Type, spec.MetricProvider.Address, spec.MetricProvider.Token = config.SignalFx, "https://api.signalfx.com", secret
			change(&spec.MetricProvider)
		}
	}
	datadog := func(change func(*config.MetricProviderSpec)) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) {
			spec.MetricProvider.Type, spec.MetricProvider.Address, spec.MetricProvider.Token = config.Datadog, "https://api.datadoghq.com", secret
			spec.MetricProvider.ApplicationKey = secret
			change(&spec.MetricProvider)
		}
	}
	runLoadSpecTests(t, []loadSpecTest{
		{name: "Prometheus with an address is accepted", change: prometheus(func(*config.MetricProviderSpec) {})},
		{
			name:   "Prometheus without an address is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Address = "" }),
			want: refused("metricProvider.address", "Required", "type Prometheus needs the server's URL",
				`"http://prometheus.monitoring.svc:9090"`),
		},
		{
			name: "an invalid address is refused although it is not used: the type may have been forgotten",
			change: func(spec *config.LoadSpec) {
				spec.MetricProvider.Address = "prometheus:9090"
			},
			want: refused("metricProvider.address", `"prometheus:9090"`, "http://"),
		},
		{
			name: "an unknown type is refused", change: func(spec *config.LoadSpec) { spec.MetricProvider.Type = "Prometeus" },
			want: refused("metricProvider.type", `"Prometeus"`, `"KubernetesMetricsServer"`, `"Prometheus"`, `"SignalFx"`, `"Datadog"`),
		},
		{name: "SignalFx with a token is accepted", change: signalFx(func(*config.MetricProviderSpec) {})},
		{
			name: "SignalFx without a token is refused", change: signalFx(func(provider *config.MetricProviderSpec) { provider.Token = "" }),
			want: refused("metricProvider.tokenFile", "Required", "type SignalFx needs an access token with the scope API"),
		},
		{name: "Datadog with both keys is accepted", change: datadog(func(*config.MetricProviderSpec) {})},
		{
			name: "Datadog with its own dialect, queries, a cluster and a suffix is accepted",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.Dialect, provider.ClusterName, provider.HostNameSuffix = config.DialectDatadogAgent, "eu/prod_1", "-eu.example.com"
				provider.Queries = &config.LoadQueries{CPU: "avg:my.cpu{$filter} by {host}"}
			}),
		},
		{
			name: "Datadog without keys is refused",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.Token, provider.ApplicationKey = "", ""
			}),
			want: []refusal{
				{path: "metricProvider.tokenFile", parts: []string{"Required", "type Datadog needs an API key"}},
				{path: "metricProvider.applicationKeyFile", parts: []string{"Required", "an application key with the scope timeseries_query"}},
			},
		},
		{
			name: "an application key in two words is refused, and not shown",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.ApplicationKey = "a " + secret
			}),
			want: refused("metricProvider.applicationKey", "printable ASCII"),
		},
		{
			name: "an application key and a file for it are refused, and so is a file that is not there",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.ApplicationKeyFile = "/does/not/exist"
			}),
			want: []refusal{
				{path: "metricProvider.applicationKeyFile", parts: []string{"Forbidden", "must not be set together with applicationKey"}},
				{path: "metricProvider.applicationKeyFile", parts: []string{"with the application key", "no such file"}},
			},
		},
		{
			name: "the placeholder of a written configuration is no application key",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.ApplicationKey = config.RedactedSecret
			}),
			want: refused("metricProvider.applicationKey", "put the application key back, or use applicationKeyFile"),
		},
		{
			name: "a type in lower case is refused once",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.Type, provider.Dialect = "datadog", config.DialectAuto
			}),
			want: refused("metricProvider.type", `"datadog"`, `"Datadog"`),
		},
		{
			name:   "labels of nodes are refused with Datadog",
			change: datadog(func(provider *config.MetricProviderSpec) { provider.NodeLabels = []string{"my_host"} }),
			want:   refused("metricProvider.nodeLabels", "Forbidden", "with type Prometheus", `"Datadog"`, "group custom queries by that tag"),
		},
		{
			name:   "a dialect is refused with SignalFx",
			change: signalFx(func(provider *config.MetricProviderSpec) { provider.Dialect = config.DialectNodeExporter }),
			want:   refused("metricProvider.dialect", `"NodeExporter"`, `supported values: "Auto"`),
		},
		{
			name: "a dialect of Prometheus is refused with Datadog",
			change: datadog(func(provider *config.MetricProviderSpec) {
				provider.Dialect = config.DialectKubelet
			}),
			want: refused("metricProvider.dialect", `"Kubelet"`, `"Auto"`, `"Utilization"`, `"DatadogAgent"`),
		},
		{
			name:   "a dialect of Datadog is refused with Prometheus",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Dialect = config.DialectDatadogAgent }),
			want:   refused("metricProvider.dialect", `"DatadogAgent"`, `"cAdvisor"`),
		},
		{
			name: "filters that would change the query are refused",
			change: signalFx(func(provider *config.MetricProviderSpec) {
				provider.ClusterName, provider.HostNameSuffix = "a OR b", "*"
			}),
			want: []refusal{
				{path: "metricProvider.clusterName", parts: []string{`"a OR b"`, "letters, digits and . _ - /"}},
				{path: "metricProvider.hostNameSuffix", parts: []string{`"*"`}},
			},
		},
		{
			name: "a filter that is too long is refused, and not shown",
			change: signalFx(func(provider *config.MetricProviderSpec) {
				provider.ClusterName = strings.Repeat("x", 257)
			}),
			want: refused("metricProvider.clusterName", `"257 bytes"`, "at most 256 bytes"),
		},
		{
			name: "fields of hosted services are refused with Prometheus",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.ClusterName, provider.HostNameSuffix, provider.ApplicationKey = "a", "b", "c"
			}),
			want: []refusal{
				{path: "metricProvider.clusterName", parts: []string{"Forbidden", "with the types SignalFx and Datadog", `"Prometheus"`}},
				{path: "metricProvider.hostNameSuffix", parts: []string{"Forbidden"}},
				{path: "metricProvider.applicationKeyFile", parts: []string{"Forbidden", "with type Datadog alone"}},
			},
		},
		{
			name: "an address of SignalFx without a scheme is refused",
			change: signalFx(func(provider *config.MetricProviderSpec) {
				provider.Address = "api.us1.signalfx.com"
			}),
			want: refused("metricProvider.address", "https://api.us1.signalfx.com"),
		},
		{
			name: "a query to SignalFx of more than 4 KiB is refused, and not shown",
			change: signalFx(func(provider *config.MetricProviderSpec) {
				provider.Queries = &config.LoadQueries{CPU: strings.Repeat("u", 4<<10+1)}
			}),
			want: refused("metricProvider.queries.cpu", `"4097 bytes"`, "at most 4096 bytes", "write a shorter query"),
		},
		{
			name: "SignalFx with a load-watcher service is accepted",
			change: func(spec *config.LoadSpec) {
				spec.WatcherAddress = "http://load-watcher:2020"
				spec.MetricProvider.Type = config.SignalFx
			},
		},
		{
			name: "with watcherAddress, Prometheus needs no address",
			change: func(spec *config.LoadSpec) {
				spec.WatcherAddress = "http://load-watcher:2020"
				spec.MetricProvider.Type = config.Prometheus
			},
		},
		{
			name: "with watcherAddress, SignalFx needs nothing else",
			change: func(spec *config.LoadSpec) {
				spec.WatcherAddress = "http://load-watcher:2020"
				spec.MetricProvider.Type = config.SignalFx
			},
		},
		{
			name: "with watcherAddress, invalid fields of the unused provider are refused",
			change: func(spec *config.LoadSpec) {
				spec.WatcherAddress = "http://load-watcher:2020"
				spec.MetricProvider.Type = "Graphite"
				spec.MetricProvider.Address = "prometheus:9090"
				spec.MetricProvider.Dialect = "x"
			},
			want: []refusal{
				{path: "metricProvider.type"},
				{path: "metricProvider.address"},
				{path: "metricProvider.dialect"},
			},
		},
		{
			name: "with watcherAddress, the fields of its connection are validated",
			change: func(spec *config.LoadSpec) {
				spec.WatcherAddress = "http://load-watcher:2020"
				spec.MetricProvider.Token = "a " + secret
				spec.MetricProvider.CAFile = "/does/not/exist"
				spec.MetricProvider.Timeout.Duration = 0
			},
			want: []refusal{
				{path: "metricProvider.token"},
				{path: "metricProvider.timeout"},
				{path: "metricProvider.caFile"},
			},
		},
		{
			name:   "an unknown dialect is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Dialect = "CAdvisor" }),
			want:   refused("metricProvider.dialect", `"CAdvisor"`, `"Auto"`, `"NodeExporter"`, `"KubePrometheus"`, `"Kubelet"`, `"cAdvisor"`),
		},
		{
			name:   "a query for cpu alone is accepted",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Queries = &config.LoadQueries{CPU: "a"} }),
		},
		{
			name:   "a query for memory alone is accepted",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Queries = &config.LoadQueries{Memory: "a"} }),
		},
		{
			name:   "queries without any are refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Queries = &config.LoadQueries{} }),
			want:   refused("metricProvider.queries", "Required", "set cpu, memory, or both", "remove queries"),
		},
		{
			name: "a blank query is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.Queries = &config.LoadQueries{CPU: " \n", Memory: "a"}
			}),
			want: refused("metricProvider.queries.cpu", `" \n"`, "PromQL expression", "leave the field out"),
		},
		{
			name: "queries without Prometheus are refused",
			change: func(spec *config.LoadSpec) {
				spec.MetricProvider.Queries = &config.LoadQueries{CPU: "a"}
			},
			want: refused("metricProvider.queries", "Forbidden", "the types Prometheus, SignalFx and Datadog", `"KubernetesMetricsServer"`,
				"remove them or set the type"),
		},
		{
			name:   "more than 32 node labels are refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.NodeLabels = slices.Repeat([]string{"node"}, 33) }),
			want:   refused("metricProvider.nodeLabels", "33 labels", "at most 32"),
		},
		{
			name: "a query of 16 KiB is accepted",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.Queries = &config.LoadQueries{CPU: strings.Repeat("u", 16<<10)}
			}),
		},
		{
			name: "a longer query is refused, and not shown",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.Queries = &config.LoadQueries{Memory: strings.Repeat("u", 16<<10+1)}
			}),
			want: refused("metricProvider.queries.memory", `"16385 bytes"`, "at most 16384 bytes", "recording rule"),
		},
		{
			name:   "a selector is accepted",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = `{namespace="a", job=~"b|c", pod!=""}` }),
		},
		{
			name:   "a selector without braces is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = `namespace="a"` }),
			want:   refused("metricProvider.selector", "label matchers of PromQL in braces", "parse error"),
		},
		{
			name:   "a selector of a metric is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = `node_load1{namespace="a"}` }),
			want:   refused("metricProvider.selector", "without a metric, offset or @"),
		},
		{
			name:   "a selector with an offset is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = `{namespace="a"} offset 5m` }),
			want:   refused("metricProvider.selector", "without a metric, offset or @"),
		},
		{
			name:   "an expression is no selector",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = `sum({namespace="a"})` }),
			want:   refused("metricProvider.selector", "without a metric, offset or @"),
		},
		{
			name:   "a selector that is too long is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.Selector = strings.Repeat("u", 16<<10+1) }),
			want:   refused("metricProvider.selector", `"16385 bytes"`),
		},
		{
			name:   "a selector without Prometheus is refused",
			change: func(spec *config.LoadSpec) { spec.MetricProvider.Selector = `{namespace="a"}` },
			want:   refused("metricProvider.selector", "Forbidden", "type Prometheus"),
		},
		{
			name:   "an empty list of node labels is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) { provider.NodeLabels = []string{} }),
			want:   refused("metricProvider.nodeLabels", "Required", "at least one label", "leave the field out"),
		},
		{
			name: "node labels that Prometheus cannot have are refused, each by its index",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.NodeLabels = []string{"node", "kubernetes.io/hostname", "", "1st", "_ok1"}
			}),
			want: []refusal{
				{
					path:  "metricProvider.nodeLabels[1]",
					parts: []string{`"kubernetes.io/hostname"`, "letter or underscore", "such as kubernetes_node"},
				},
				{path: "metricProvider.nodeLabels[2]", parts: []string{`""`}},
				{path: "metricProvider.nodeLabels[3]", parts: []string{`"1st"`}},
			},
		},
		{
			name: "a node label given twice is refused",
			change: prometheus(func(provider *config.MetricProviderSpec) {
				provider.NodeLabels = []string{"node", "instance", "node"}
			}),
			want: refused("metricProvider.nodeLabels[2]", "Duplicate", `"node"`),
		},
	})
}

func TestValidateLoadSpec_Credentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	certificate := newCertificate(t)

	token := func(token string) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) { spec.MetricProvider.Token = config.Secret(token) }
	}
	tokenFile := func(path string) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) { spec.MetricProvider.TokenFile = path }
	}
	caFile := func(path string) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) { spec.MetricProvider.CAFile = path }
	}
	tokenRule := []string{"printable ASCII characters without blanks and line breaks", "write the token alone"}

	runLoadSpecTests(t, []loadSpecTest{
		{name: "a token is accepted", change: token("eyJhbGciOi.hunter2-_~+/==")},
		{
			name: "a token with a line break is refused and hidden", change: token(secret + "\n"),
			want: refused("metricProvider.token", append(tokenRule, "<redacted>")...),
		},
		{
			name: "a token with a carriage return is refused", change: token("a\r\nX-Evil: " + secret),
			want: refused("metricProvider.token", tokenRule...),
		},
		{
			name: "a token with a blank is refused", change: token("Bearer " + secret),
			want: refused("metricProvider.token", append(tokenRule, `without "Bearer"`)...),
		},
		{name: "a token with a NUL is refused", change: token(secret + "\x00"), want: refused("metricProvider.token", tokenRule...)},
		{name: "a token beyond ASCII is refused", change: token(secret + "é"), want: refused("metricProvider.token", tokenRule...)},
		{name: "a token of blanks is refused", change: token("  "), want: refused("metricProvider.token", tokenRule...)},
		{
			name: "the placeholder of a written configuration is refused", change: token("<redacted>"),
			want: refused("metricProvider.token", "in place of the token", "put the token back"),
		},

		{name: "a token file that ends with a line break is accepted", change: tokenFile(file("token", secret+"\n"))},
		{
			name: "a missing token file is refused", change: tokenFile(missing),
			want: refused("metricProvider.tokenFile", missing, "no such file", "mount the file or correct the path"),
		},
		{
			name: "a directory as token file is refused", change: tokenFile(dir),
			want: refused("metricProvider.tokenFile", dir, "not a regular file"),
		},
		{
			name: "a pipe as token file is refused, and does not block", change: tokenFile(pipe),
			want: refused("metricProvider.tokenFile", "not a regular file"),
		},
		{
			name: "an empty token file is refused", change: tokenFile(file("empty", "")),
			want: refused("metricProvider.tokenFile", "is empty", "or write it"),
		},
		{
			name: "a token file of line breaks is refused", change: tokenFile(file("blank", "\n\n")),
			want: refused("metricProvider.tokenFile", "is empty"),
		},
		{
			name: "a token file of two lines is refused and hidden", change: tokenFile(file("lines", secret+"\n"+secret)),
			want: refused("metricProvider.tokenFile", append(tokenRule, "the token in it")...),
		},
		{
			name: "a token file that is too large is refused", change: tokenFile(file("large", strings.Repeat("a", 64<<10+1))),
			want: refused("metricProvider.tokenFile", "more than 65536 bytes"),
		},
		{
			name: "a token and a token file together are refused",
			change: func(spec *config.LoadSpec) {
				spec.MetricProvider.Token = secret
				spec.MetricProvider.TokenFile = file("second", secret)
			},
			want: refused("metricProvider.tokenFile", "Forbidden", "together with token", "remove one"),
		},

		{name: "a bundle of one certificate is accepted", change: caFile(file("one.crt", certificate))},
		{name: "a bundle with comments is accepted", change: caFile(file("two.crt", "# first\n"+certificate+"# second\n"+certificate))},
		{
			name: "a missing bundle is refused", change: caFile(missing),
			want: refused("metricProvider.caFile", missing, "no such file", "mount the file or correct the path"),
		},
		{
			name: "an empty bundle is refused", change: caFile(file("empty.crt", "")),
			want: refused("metricProvider.caFile", "at least one PEM certificate", "name the bundle"),
		},
		{
			name: "a bundle without certificates is refused", change: caFile(file("text.crt", "no certificate")),
			want: refused("metricProvider.caFile", "at least one PEM certificate"),
		},
		{
			name: "a key instead of a bundle is refused and hidden",
			change: caFile(file("key.pem", string(pem.EncodeToMemory(&pem.Block{
				Type: "PRIVATE KEY", Bytes: []byte(secret),
			})))),
			want: refused("metricProvider.caFile", "at least one PEM certificate"),
		},
		{
			name: "a certificate block without a certificate is refused",
			change: caFile(file("junk.crt", string(pem.EncodeToMemory(&pem.Block{
				Type: "CERTIFICATE", Bytes: []byte("junk"),
			})))),
			want: refused("metricProvider.caFile", "at least one PEM certificate"),
		},
	})
}

var files = validation.LocalFiles()

func newCertificate(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestValidateLoadSpec_Timing(t *testing.T) {
	timing := func(window, refreshInterval, maxAge, timeout time.Duration) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) {
			spec.Window.Duration = window
			spec.RefreshInterval.Duration = refreshInterval
			spec.MaxAge.Duration = maxAge
			spec.MetricProvider.Timeout.Duration = timeout
		}
	}
	drift := func(value float64) func(*config.LoadSpec) {
		return func(spec *config.LoadSpec) { spec.DriftTolerance = value }
	}
	const s, m, h = time.Second, time.Minute, time.Hour
	runLoadSpecTests(t, []loadSpecTest{
		{name: "the shortest of everything is accepted", change: timing(10*s, s, s, s)},
		{name: "the longest window is accepted", change: timing(h, 30*s, 5*m, 10*s)},
		{
			name: "a window under 10s is refused", change: timing(9*s, 30*s, 5*m, 10*s),
			want: refused("window", `"9s"`, "[10s, 1h0m0s]", "such as 5m"),
		},
		{name: "a window over 1h is refused", change: timing(h+s, 30*s, 5*m, 10*s), want: refused("window", `"1h0m1s"`, "[10s, 1h0m0s]")},
		{name: "a negative window is refused", change: timing(-5*m, 30*s, 5*m, 10*s), want: refused("window", `"-5m0s"`)},
		{
			name: "a refreshInterval of 0 is refused", change: timing(5*m, 0, 5*m, 10*s),
			want: refused("refreshInterval", `"0s"`, "at least 1s", "at most maxAge", "such as 30s"),
		},
		{
			name: "a refreshInterval under 1s is refused", change: timing(5*m, s/2, 5*m, 10*s),
			want: refused("refreshInterval", `"500ms"`, "at least 1s"),
		},
		{
			name: "a refreshInterval over maxAge is refused", change: timing(5*m, 10*m, 5*m, 10*s),
			want: refused("refreshInterval", `"10m0s"`, "at most maxAge (5m0s)", "lower refreshInterval or raise maxAge"),
		},
		{
			name: "a maxAge of 0 is refused once: other fields are not compared with it", change: timing(5*m, 30*s, 0, 10*s),
			want: refused("maxAge", `"0s"`, "at least 1s", "such as 5m"),
		},
		{name: "a negative maxAge is refused once", change: timing(5*m, 30*s, -m, 10*s), want: refused("maxAge", `"-1m0s"`)},
		{
			name: "a timeout of 0 is refused", change: timing(5*m, 30*s, 5*m, 0),
			want: refused("metricProvider.timeout", `"0s"`, "more than 0", "such as 10s"),
		},
		{
			name: "a negative timeout is refused", change: timing(5*m, 30*s, 5*m, -s),
			want: refused("metricProvider.timeout", `"-1s"`, "more than 0"),
		},
		{name: "a timeout of maxAge is accepted", change: timing(5*m, 30*s, 5*m, 5*m)},
		{
			name: "a timeout over maxAge is refused", change: timing(5*m, 30*s, 5*m, 6*m),
			want: refused("metricProvider.timeout", `"6m0s"`, "at most maxAge (5m0s)", "lower timeout or raise maxAge"),
		},
		{name: "a small driftTolerance is accepted", change: drift(0.1)},
		{name: "a driftTolerance of 0 is refused", change: drift(0), want: refused("driftTolerance", "0", "above 0", "such as 10")},
		{name: "a negative driftTolerance is refused", change: drift(-1), want: refused("driftTolerance", "-1", "above 0")},
		{name: "a driftTolerance of NaN is refused", change: drift(math.NaN()), want: refused("driftTolerance", "NaN", "above 0")},
		{name: "an infinite driftTolerance is refused", change: drift(math.Inf(1)), want: refused("driftTolerance", "+Inf", "finite")},
	})
}

func TestValidatePluginConfigs_Files(t *testing.T) {
	args := targetLoadPackingArgs(t)
	args.MetricProvider.CAFile = "/does/not/exist"
	c := &kubeschedulerconfig.KubeSchedulerConfiguration{Profiles: []kubeschedulerconfig.KubeSchedulerProfile{
		{PluginConfig: []kubeschedulerconfig.PluginConfig{{Name: "TargetLoadPacking", Args: args}}},
	}}
	if err := validation.ValidatePluginConfigs(c, files); err == nil ||
		!strings.Contains(err.Error(), "profiles[0].pluginConfig[0].args.metricProvider.caFile") {
		t.Errorf("error %v, want one that names the field", err)
	}
	if err := validation.ValidatePluginConfigs(c, validation.Files{}); err != nil {
		t.Errorf("a file of the scheduler's pod is read here: %v", err)
	}
	args.TargetUtilization = 150
	if err := validation.ValidatePluginConfigs(c, validation.Files{}); err == nil {
		t.Error("a target of 150 is valid")
	}
}

func TestValidatePluginConfigs(t *testing.T) {
	badTarget := targetLoadPackingArgs(t)
	badTarget.TargetUtilization = 150
	badMargin := loadVariationRiskBalancingArgs(t)
	badMargin.SafeVarianceMargin = -1
	badMargin.MissingLoad = "x"

	profile := func(plugins ...kubeschedulerconfig.PluginConfig) kubeschedulerconfig.KubeSchedulerProfile {
		return kubeschedulerconfig.KubeSchedulerProfile{PluginConfig: plugins}
	}
	stock := kubeschedulerconfig.PluginConfig{Name: "NodeAffinity", Args: &kubeschedulerconfig.NodeAffinityArgs{}}
	foreign := kubeschedulerconfig.PluginConfig{Name: "Foreign", Args: &runtime.Unknown{}}
	ours := profile(kubeschedulerconfig.PluginConfig{Name: "TargetLoadPacking", Args: targetLoadPackingArgs(t)})
	for _, tt := range []struct {
		name     string
		profiles []kubeschedulerconfig.KubeSchedulerProfile
		want     []string
	}{
		{name: "no profile is accepted"},
		{name: "100 profiles with load plugins are accepted", profiles: slices.Concat(slices.Repeat([]kubeschedulerconfig.KubeSchedulerProfile{ours}, 100), []kubeschedulerconfig.KubeSchedulerProfile{profile(stock)})},
		{
			name:     "more profiles with load plugins are refused",
			profiles: slices.Repeat([]kubeschedulerconfig.KubeSchedulerProfile{ours}, 101),
			want:     []string{`profiles: Invalid value: "101 profiles with load plugins": must be at most 100`},
		},
		{
			name: "good arguments are accepted, other plugins' are left alone",
			profiles: []kubeschedulerconfig.KubeSchedulerProfile{profile(stock, foreign,
				kubeschedulerconfig.PluginConfig{Name: "TargetLoadPacking", Args: targetLoadPackingArgs(t)})},
		},
		{
			name: "bad arguments of all profiles are reported with their paths from the top",
			profiles: []kubeschedulerconfig.KubeSchedulerProfile{
				profile(stock, kubeschedulerconfig.PluginConfig{Name: "TargetLoadPacking", Args: badTarget}),
				profile(),
				profile(kubeschedulerconfig.PluginConfig{Name: "LoadVariationRiskBalancing", Args: badMargin}),
			},
			want: []string{
				"profiles[0].pluginConfig[1].args.targetUtilization: Invalid value: 150: must be in [1, 99]",
				`profiles[2].pluginConfig[0].args.missingLoad: Unsupported value: "x"`,
				"profiles[2].pluginConfig[0].args.safeVarianceMargin: Invalid value: -1",
			},
		},
		{
			name: "arguments that were not decoded are refused and hidden",
			profiles: []kubeschedulerconfig.KubeSchedulerProfile{profile(kubeschedulerconfig.PluginConfig{
				Name: "TargetLoadPacking", Args: &runtime.Unknown{Raw: []byte(secret)},
			})},
			want: []string{"profiles[0].pluginConfig[0].args: Invalid value: must be TargetLoadPackingArgs, but decoded to *runtime.Unknown"},
		},
		{
			name: "no arguments for one of the plugins are refused",
			profiles: []kubeschedulerconfig.KubeSchedulerProfile{profile(
				kubeschedulerconfig.PluginConfig{Name: "LoadVariationRiskBalancing"})},
			want: []string{"profiles[0].pluginConfig[0].args: Invalid value: must be LoadVariationRiskBalancingArgs"},
		},
		{
			name: "arguments of a plugin without load are validated",
			profiles: []kubeschedulerconfig.KubeSchedulerProfile{profile(
				kubeschedulerconfig.PluginConfig{Name: "DecisionRecord", Args: &config.DecisionRecordArgs{EventsPerSecond: 1}})},
			want: []string{"profiles[0].pluginConfig[0].args.burst: Invalid value: 0"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := validation.ValidatePluginConfigs(&kubeschedulerconfig.KubeSchedulerConfiguration{Profiles: tt.profiles}, files)
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			aggregate, ok := errors.AsType[utilerrors.Aggregate](err)
			if !ok {
				t.Fatalf("%T is not an aggregate: %v", err, err)
			}
			if got := len(aggregate.Errors()); got != len(tt.want) {
				t.Errorf("%d errors, want %d: %v", got, len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) {
				t.Errorf("the error is not one line, or shows a secret: %v", err)
			}
		})
	}
}
