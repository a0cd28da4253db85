package v1_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{config.AddToScheme, v1.AddToScheme} {
		check.OK(t, add(scheme))
	}
	return scheme
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// defaultLoadSpec returns the documented defaults.
func defaultLoadSpec() v1.LoadSpec {
	return v1.LoadSpec{
		MetricProvider: v1.MetricProviderSpec{
			Type: "KubernetesMetricsServer", InsecureSkipVerify: ptr.To(false), Dialect: "Auto",
			NodeLabels:            []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname", "k8s_node_name"},
			PodsFromMetricsServer: ptr.To(false), Timeout: duration(10 * time.Second),
		},
		Window:          duration(5 * time.Minute),
		RefreshInterval: duration(30 * time.Second),
		MaxAge:          duration(5 * time.Minute),
		DriftTolerance:  ptr.To(10.0),
	}
}

func defaultTargetLoadPackingArgs() *v1.TargetLoadPackingArgs {
	return &v1.TargetLoadPackingArgs{
		LoadSpec: defaultLoadSpec(), MissingLoad: "Requests", TargetUtilization: ptr.To[int64](40),
		DefaultRequests: v1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")}, DefaultRequestsMultiplier: ptr.To("1.5"),
		MaxLimitRequestRatio: ptr.To(10.0),
	}
}

func defaultLoadVariationRiskBalancingArgs() *v1.LoadVariationRiskBalancingArgs {
	return &v1.LoadVariationRiskBalancingArgs{
		LoadSpec: defaultLoadSpec(), MissingLoad: "Requests", SafeVarianceMargin: ptr.To(1.0), SafeVarianceSensitivity: ptr.To(1.0),
	}
}

func defaultLowRiskOverCommitmentArgs() *v1.LowRiskOverCommitmentArgs {
	return &v1.LowRiskOverCommitmentArgs{
		LoadSpec: defaultLoadSpec(), MissingLoad: "Neutral", SmoothingWindowSize: ptr.To[int64](5),
		RiskLimitWeights: map[corev1.ResourceName]float64{"cpu": 0.5, "memory": 0.5}, UnlimitedPods: "AsRequest",
	}
}

func defaultPeakSpec() v1.PeakSpec {
	return v1.PeakSpec{
		StatisticsSpec: v1.StatisticsSpec{History: duration(24 * time.Hour)},
		MinHistory:     duration(30 * time.Minute),
		Deviations:     ptr.To(1.0),
		Unknown: v1.UnknownUsage{
			RequestMultiplier: ptr.To(1.5),
			Default: v1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("2"),
				corev1.ResourceMemory: resource.MustParse("200Mi"),
			},
		},
		MaxLimitRequestRatio: ptr.To(10.0),
	}
}

func defaultPredictedPeakArgs() *v1.PredictedPeakArgs {
	return &v1.PredictedPeakArgs{
		LoadSpec: defaultLoadSpec(), PeakSpec: defaultPeakSpec(), MissingLoad: "Requests", Strategy: "Spread", Target: ptr.To[int64](70),
	}
}

func defaultLoadThresholdArgs() *v1.LoadThresholdArgs {
	return &v1.LoadThresholdArgs{
		LoadSpec: defaultLoadSpec(), MissingLoad: "Requests",
		Thresholds: config.Thresholds{CPU: ptr.To[int64](80), Memory: ptr.To[int64](90)},
		Windows:    v1.ThresholdWindows{CPU: duration(5 * time.Minute), Memory: duration(5 * time.Minute)}, Statistic: "Mean",
		StdDevFactor: ptr.To(1.0), PredictedPeak: defaultPeakSpec(), IgnoreDaemonSets: ptr.To(true), WhenNoneFits: "Relax",
	}
}

func with[T any](value *T, change func(*T)) *T {
	change(value)
	return value
}

func TestDefaults_FillMissingFieldsOnly(t *testing.T) {
	scheme := newScheme(t)
	for _, tt := range []struct {
		name     string
		in, want runtime.Object
	}{
		{name: "nothing given to TargetLoadPacking", in: &v1.TargetLoadPackingArgs{}, want: defaultTargetLoadPackingArgs()},
		{name: "nothing given to LoadVariationRiskBalancing", in: &v1.LoadVariationRiskBalancingArgs{}, want: defaultLoadVariationRiskBalancingArgs()},
		{name: "nothing given to LowRiskOverCommitment", in: &v1.LowRiskOverCommitmentArgs{}, want: defaultLowRiskOverCommitmentArgs()},
		{
			name: "each resource of LowRiskOverCommitment has a weight",
			in:   &v1.LowRiskOverCommitmentArgs{RiskLimitWeights: map[corev1.ResourceName]float64{"cpu": 0.2}},
			want: with(defaultLowRiskOverCommitmentArgs(), func(args *v1.LowRiskOverCommitmentArgs) { args.RiskLimitWeights["cpu"] = 0.2 }),
		},
		{name: "nothing given to Peaks", in: &v1.PeaksArgs{}, want: &v1.PeaksArgs{LoadSpec: defaultLoadSpec(), MissingLoad: "Neutral"}},
		{name: "nothing given to DecisionRecord", in: &v1.DecisionRecordArgs{}, want: &v1.DecisionRecordArgs{EventsPerSecond: ptr.To[int64](1), Burst: ptr.To[int64](10)}},
		{name: "nothing given to LoadThreshold", in: &v1.LoadThresholdArgs{}, want: defaultLoadThresholdArgs()},
		{name: "nothing given to PredictedPeak", in: &v1.PredictedPeakArgs{}, want: defaultPredictedPeakArgs()},
		{
			name: "how LoadThreshold predicts peaks has defaults of its own", in: &v1.LoadThresholdArgs{PredictedPeak: v1.PeakSpec{Deviations: ptr.To(2.0)}},
			want: with(defaultLoadThresholdArgs(), func(args *v1.LoadThresholdArgs) { args.PredictedPeak.Deviations = ptr.To(2.0) }),
		},
		{
			name: "the windows of LoadThreshold are its window",
			in:   &v1.LoadThresholdArgs{LoadSpec: v1.LoadSpec{Window: duration(10 * time.Minute)}, Windows: v1.ThresholdWindows{Memory: duration(15 * time.Minute)}},
			want: with(defaultLoadThresholdArgs(), func(args *v1.LoadThresholdArgs) {
				args.Window = duration(10 * time.Minute)
				args.Windows = v1.ThresholdWindows{CPU: duration(10 * time.Minute), Memory: duration(15 * time.Minute)}
			}),
		},
		{
			name: "where one threshold is given the other is not looked at", in: &v1.LoadThresholdArgs{Thresholds: config.Thresholds{Memory: ptr.To[int64](70)}},
			want: with(defaultLoadThresholdArgs(), func(args *v1.LoadThresholdArgs) { args.Thresholds = config.Thresholds{Memory: ptr.To[int64](70)} }),
		},
		{
			name: "a metric of NodeMetrics has weight 1 unless one is given, 0 included",
			in:   &v1.NodeMetricsArgs{Metrics: []v1.NodeMetric{{Name: "a"}, {Name: "b", Weight: ptr.To[int64](0)}, {Name: "c", Weight: ptr.To[int64](3)}}},
			want: &v1.NodeMetricsArgs{
				LoadSpec:     defaultLoadSpec(),
				Metrics:      []v1.NodeMetric{{Name: "a", Weight: ptr.To[int64](1)}, {Name: "b", Weight: ptr.To[int64](0)}, {Name: "c", Weight: ptr.To[int64](3)}},
				WhenNoneFits: "Relax",
			},
		},
		{
			name: "pending pods of NodeMetrics have the plugin's window unless one is given", in: &v1.NodeMetricsArgs{
				LoadSpec: v1.LoadSpec{Window: duration(time.Minute)},
				Metrics:  []v1.NodeMetric{{Pending: &v1.PendingPods{PerPod: 2}}, {Pending: &v1.PendingPods{Window: duration(time.Hour)}}},
			},
			want: with(&v1.NodeMetricsArgs{LoadSpec: defaultLoadSpec(), WhenNoneFits: "Relax"}, func(args *v1.NodeMetricsArgs) {
				args.Window = duration(time.Minute)
				args.Metrics = []v1.NodeMetric{
					{Weight: ptr.To[int64](1), Pending: &v1.PendingPods{PerPod: 2, Window: duration(time.Minute)}},
					{Weight: ptr.To[int64](1), Pending: &v1.PendingPods{Window: duration(time.Hour)}},
				}
			}),
		},
		{
			name: "SignalFx has an address",
			in:   &v1.LoadVariationRiskBalancingArgs{LoadSpec: v1.LoadSpec{MetricProvider: v1.MetricProviderSpec{Type: config.SignalFx}}},
			want: with(defaultLoadVariationRiskBalancingArgs(), func(args *v1.LoadVariationRiskBalancingArgs) {
				args.MetricProvider.Type, args.MetricProvider.Address = "SignalFx", "https://api.signalfx.com"
			}),
		},
		{
			name: "Datadog has an address",
			in:   &v1.LoadVariationRiskBalancingArgs{LoadSpec: v1.LoadSpec{MetricProvider: v1.MetricProviderSpec{Type: config.Datadog}}},
			want: with(defaultLoadVariationRiskBalancingArgs(), func(args *v1.LoadVariationRiskBalancingArgs) {
				args.MetricProvider.Type, args.MetricProvider.Address = "Datadog", "https://api.datadoghq.com"
			}),
		},
		{
			name: "an address of another site stays", in: &v1.LoadVariationRiskBalancingArgs{LoadSpec: v1.LoadSpec{
				MetricProvider: v1.MetricProviderSpec{Type: config.Datadog, Address: "https://api.datadoghq.eu"},
			}},
			want: with(defaultLoadVariationRiskBalancingArgs(), func(args *v1.LoadVariationRiskBalancingArgs) {
				args.MetricProvider.Type, args.MetricProvider.Address = "Datadog", "https://api.datadoghq.eu"
			}),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			scheme.Default(tt.in)
			check.Equal(t, "defaulted differs", tt.want, tt.in)
		})
	}
}

// zero sets numbers, texts and durations that a pointer points to, to zero, and empties lists and maps, except lists of structs.
func zero(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if _, isDuration := value.Interface().(*metav1.Duration); isDuration || value.Elem().Kind() != reflect.Struct {
			value.Elem().SetZero()
		} else {
			zero(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			zero(value.Field(i))
		}
	case reflect.Map:
		value.Clear()
	case reflect.Slice:
		for i := range value.Len() {
			zero(value.Index(i))
		}
		if value.Type().Elem().Kind() != reflect.Struct {
			value.SetLen(0)
		}
	}
}

// What is given stays, zeros included: validation refuses some of them.
func TestDefaults_KeepWhatIsGiven(t *testing.T) {
	scheme := newScheme(t)
	keeps := func(what string, given runtime.Object) {
		if args, ok := given.(*v1.LowRiskOverCommitmentArgs); ok { // each resource has a weight
			args.RiskLimitWeights = map[corev1.ResourceName]float64{"cpu": 0, "memory": 1}
		}
		defaulted := given.DeepCopyObject()
		scheme.Default(defaulted)
		check.Equal(t, what, given, defaulted)
	}
	eachKind(t, scheme, func(kind string, filled runtime.Object) {
		keeps(kind+" with values", filled)
		zero(reflect.ValueOf(filled).Elem())
		keeps(kind+" with zeros", filled)
	})
}

func TestDefaults_TimeoutLeavesTimeForSecondRefresh(t *testing.T) {
	for _, tt := range []struct {
		name          string
		given, maxAge *metav1.Duration
		want          time.Duration
	}{
		{name: "maxAge not given: the usual timeout", want: 10 * time.Second},
		{name: "a long maxAge: the usual timeout", maxAge: duration(time.Hour), want: 10 * time.Second},
		{name: "a maxAge of twice the usual timeout: the usual timeout", maxAge: duration(20 * time.Second), want: 10 * time.Second},
		{name: "a short maxAge: half of it", maxAge: duration(6 * time.Second), want: 3 * time.Second},
		{name: "a given timeout stays, whatever maxAge is", given: duration(5 * time.Second), maxAge: duration(6 * time.Second), want: 5 * time.Second},
		{name: "a maxAge of zero does not make a second wrong value", maxAge: duration(0), want: 10 * time.Second},
		{name: "a negative maxAge does not make a second wrong value", maxAge: duration(-time.Minute), want: 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := &v1.TargetLoadPackingArgs{LoadSpec: v1.LoadSpec{
				MetricProvider: v1.MetricProviderSpec{Timeout: tt.given}, MaxAge: tt.maxAge,
			}}
			v1.SetObjectDefaults_TargetLoadPackingArgs(args)
			check.Equal(t, "timeout", tt.want, args.MetricProvider.Timeout.Duration)
		})
	}
}
