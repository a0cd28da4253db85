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

// fullLoadSpec has a value in every field, none of them the default.
func fullLoadSpec() v1.LoadSpec {
	return v1.LoadSpec{
		WatcherAddress: "http://watcher:2020",
		MetricProvider: v1.MetricProviderSpec{
			Type: config.Prometheus, Address: "https://prometheus:9090/prefix", Token: "hunter2", TokenFile: "/token",
			ApplicationKey: "hunter3", ApplicationKeyFile: "/key", CAFile: "/ca.crt", HTTPConfigFile: "/http", InsecureSkipVerify: ptr.To(true), ClusterName: "prod",
			HostNameSuffix: ".example.com", Dialect: "cAdvisor", Queries: &v1.LoadQueries{CPU: "cpu", Memory: "memory"},
			NodeLabels: []string{"kubernetes_io_hostname"}, Selector: `{namespace="a"}`, PodsFromMetricsServer: ptr.To(true), Timeout: duration(3 * time.Second),
		},
		Window:          duration(10 * time.Minute),
		RefreshInterval: duration(15 * time.Second),
		MaxAge:          duration(2 * time.Minute),
		DriftTolerance:  ptr.To(7.5),
	}
}

func fullInternalLoadSpec() config.LoadSpec {
	return config.LoadSpec{
		WatcherAddress: "http://watcher:2020",
		MetricProvider: config.MetricProviderSpec{
			Type: config.Prometheus, Address: "https://prometheus:9090/prefix", Token: "hunter2", TokenFile: "/token",
			ApplicationKey: "hunter3", ApplicationKeyFile: "/key", CAFile: "/ca.crt", HTTPConfigFile: "/http", InsecureSkipVerify: true, ClusterName: "prod",
			HostNameSuffix: ".example.com", Dialect: "cAdvisor", Queries: &config.LoadQueries{CPU: "cpu", Memory: "memory"},
			NodeLabels: []string{"kubernetes_io_hostname"}, Selector: `{namespace="a"}`, PodsFromMetricsServer: true, Timeout: metav1.Duration{Duration: 3 * time.Second},
		},
		Window:          metav1.Duration{Duration: 10 * time.Minute},
		RefreshInterval: metav1.Duration{Duration: 15 * time.Second},
		MaxAge:          metav1.Duration{Duration: 2 * time.Minute},
		DriftTolerance:  7.5,
	}
}

// fullPeakSpec has a value in every field, none of them the default.
func fullPeakSpec() v1.PeakSpec {
	return v1.PeakSpec{
		StatisticsSpec: v1.StatisticsSpec{History: duration(time.Hour), WorkloadLabel: "app"},
		MinHistory:     duration(time.Minute),
		Deviations:     ptr.To(2.0),
		Unknown: v1.UnknownUsage{
			RequestMultiplier: ptr.To(3.0), Default: v1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		},
		MaxLimitRequestRatio: ptr.To(4.0),
	}
}

func fullInternalPeakSpec() config.PeakSpec {
	return config.PeakSpec{
		StatisticsSpec: config.StatisticsSpec{History: metav1.Duration{Duration: time.Hour}, WorkloadLabel: "app"},
		MinHistory:     metav1.Duration{Duration: time.Minute},
		Deviations:     2,
		Unknown: config.UnknownUsage{
			RequestMultiplier: 3, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
		},
		MaxLimitRequestRatio: 4,
	}
}

func TestConversion_KeepsEveryFieldBothWays(t *testing.T) {
	scheme := newScheme(t)
	for _, tt := range []struct {
		name                string
		versioned, internal runtime.Object
	}{
		{
			name: "TargetLoadPackingArgs", versioned: &v1.TargetLoadPackingArgs{
				TypeMeta: metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "TargetLoadPackingArgs"},
				LoadSpec: fullLoadSpec(), MissingLoad: config.MissingLoadLowest, TargetUtilization: ptr.To[int64](70),
				DefaultRequests: v1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}, DefaultRequestsMultiplier: ptr.To("2"),
				MaxLimitRequestRatio: ptr.To(4.0),
			},
			internal: &config.TargetLoadPackingArgs{
				LoadSpec: fullInternalLoadSpec(), MissingLoad: config.MissingLoadLowest, TargetUtilization: 70,
				DefaultRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}, DefaultRequestsMultiplier: "2",
				MaxLimitRequestRatio: 4,
			},
		},
		{
			name: "LoadVariationRiskBalancingArgs", versioned: &v1.LoadVariationRiskBalancingArgs{
				TypeMeta: metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "LoadVariationRiskBalancingArgs"},
				LoadSpec: fullLoadSpec(), MissingLoad: config.MissingLoadNeutral,
				DefaultRequests: v1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}, SafeVarianceMargin: ptr.To(0.5),
				SafeVarianceSensitivity: ptr.To(2.0),
			},
			internal: &config.LoadVariationRiskBalancingArgs{
				LoadSpec: fullInternalLoadSpec(), MissingLoad: config.MissingLoadNeutral,
				DefaultRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}, SafeVarianceMargin: 0.5,
				SafeVarianceSensitivity: 2,
			},
		},
		{
			name: "LowRiskOverCommitmentArgs", versioned: &v1.LowRiskOverCommitmentArgs{
				TypeMeta: metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "LowRiskOverCommitmentArgs"},
				LoadSpec: fullLoadSpec(), MissingLoad: config.MissingLoadNeutral, SmoothingWindowSize: ptr.To[int64](7),
				RiskLimitWeights: map[corev1.ResourceName]float64{corev1.ResourceCPU: 0.25, corev1.ResourceMemory: 1},
				UnlimitedPods:    config.UnlimitedPodsAsRequest,
			},
			internal: &config.LowRiskOverCommitmentArgs{
				LoadSpec: fullInternalLoadSpec(), MissingLoad: config.MissingLoadNeutral, SmoothingWindowSize: 7,
				RiskLimitWeights: map[corev1.ResourceName]float64{corev1.ResourceCPU: 0.25, corev1.ResourceMemory: 1},
				UnlimitedPods:    config.UnlimitedPodsAsRequest,
			},
		},
		{
			name: "DecisionRecordArgs", versioned: &v1.DecisionRecordArgs{
				TypeMeta:        metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "DecisionRecordArgs"},
				EventsPerSecond: ptr.To[int64](2), Burst: ptr.To[int64](3),
			},
			internal: &config.DecisionRecordArgs{EventsPerSecond: 2, Burst: 3},
		},
		{
			name: "PeaksArgs", versioned: &v1.PeaksArgs{
				TypeMeta:       metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "PeaksArgs"},
				LoadSpec:       fullLoadSpec(),
				MissingLoad:    config.MissingLoadLowest,
				NodePowerModel: map[string]v1.PowerModel{"node-1": {K0: 1, K1: 2, K2: 3}},
				NodePowerModels: []v1.NodePowerModel{
					{NodeSelector: map[string]string{"type": "large"}, PowerModel: v1.PowerModel{K0: 4, K1: 5, K2: 6}},
				},
			},
			internal: &config.PeaksArgs{
				LoadSpec:       fullInternalLoadSpec(),
				MissingLoad:    config.MissingLoadLowest,
				NodePowerModel: map[string]config.PowerModel{"node-1": {K0: 1, K1: 2, K2: 3}},
				NodePowerModels: []config.NodePowerModel{
					{NodeSelector: map[string]string{"type": "large"}, PowerModel: config.PowerModel{K0: 4, K1: 5, K2: 6}},
				},
			},
		},
		{
			name: "PredictedPeakArgs", versioned: &v1.PredictedPeakArgs{
				TypeMeta: metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "PredictedPeakArgs"}, LoadSpec: fullLoadSpec(),
				PeakSpec: fullPeakSpec(), MissingLoad: config.MissingLoadNeutral, Strategy: config.StrategyPack, Target: ptr.To[int64](60),
			},
			internal: &config.PredictedPeakArgs{
				LoadSpec: fullInternalLoadSpec(), PeakSpec: fullInternalPeakSpec(), MissingLoad: config.MissingLoadNeutral,
				Strategy: config.StrategyPack, Target: 60,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A new field that is missing in the fixture is not tested.
			requireNoZeroField(t, tt.name, reflect.ValueOf(tt.versioned).Elem())

			internal := check.Value(scheme.ConvertToVersion(tt.versioned.DeepCopyObject(), config.SchemeGroupVersion))(t)
			// The internal type carries no kind: the scheme clears it.
			check.Equal(t, "internal differs", tt.internal, internal)
			versioned := check.Value(scheme.ConvertToVersion(internal.DeepCopyObject(), v1.SchemeGroupVersion))(t)
			check.Equal(t, "round trip differs", tt.versioned, versioned)
		})
	}
}

// requireNoZeroField fails for every zero field of a struct and of the structs of this project within it.
func requireNoZeroField(t *testing.T, path string, value reflect.Value) {
	t.Helper()
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct || value.Type().PkgPath() != reflect.TypeFor[v1.LoadSpec]().PkgPath() {
		return
	}
	for i := range value.NumField() {
		fieldPath := path + "." + value.Type().Field(i).Name
		if value.Field(i).IsZero() {
			t.Errorf("%s is zero in the fixture: its conversion is not tested", fieldPath)
			continue
		}
		requireNoZeroField(t, fieldPath, value.Field(i))
	}
}

func TestDeepCopy_SharesNothing(t *testing.T) {
	original := &config.TargetLoadPackingArgs{
		LoadSpec: fullInternalLoadSpec(), DefaultRequests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}
	copied := original.DeepCopy()
	copied.MetricProvider.NodeLabels[0] = "changed"
	copied.MetricProvider.Queries.CPU = "changed"
	copied.DefaultRequests[corev1.ResourceCPU] = resource.MustParse("2")
	check.Equal(t, "a change of the copy reached the original", fullInternalLoadSpec(), original.LoadSpec)
	if cpu := original.DefaultRequests[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse("1")) != 0 {
		t.Errorf("a change of the copy reached the original's requests: %s", cpu.String())
	}
}
