package provider

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// FuzzArguments decodes the arguments of a plugin as a scheduler does, strictly and with defaults. It validates them, all in
// bounded time. From what is valid a source can be opened, and it can be written as YAML and read again.
//
// VALUE in fields stands for value, quoted: most changes to YAML make it none, while any value can be quoted.
func FuzzArguments(f *testing.F) {
	const (
		packing, balancing = config.TargetLoadPacking, config.LoadVariationRiskBalancing
		threshold, metrics = config.LoadThreshold, config.NodeMetrics
		prometheus         = "metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc:9090'}\n"
		metric             = prometheus + "metrics: [{name: a, query: b, prefer: Lower, "
	)
	plugins := config.PluginNames()
	for _, seed := range []struct {
		plugin, fields, value string
	}{
		{packing, "", ""},
		{packing, "metricProvider: {type: VALUE}\n", "Prometheus"},
		{packing, "metricProvider: {type: VALUE}\n", "SignalFx"},
		{packing, "metricProvider: {type: SignalFx, token: t, clusterName: VALUE, queries: {cpu: 'sf_metric:x'}}\n", "prod"},
		{packing, "metricProvider: {type: Datadog, token: t, applicationKey: k, hostNameSuffix: VALUE, dialect: DatadogAgent}\n", ".example.com"},
		{packing, prometheus + "targetUtilization: 40\ndefaultRequests: {cpu: VALUE}\ndefaultRequestsMultiplier: '1.5'\n", "500m"},
		{balancing, prometheus + "defaultRequests: {memory: VALUE}\nmissingLoad: Neutral\n", "9223372036854775807E"},
		{balancing, prometheus + "defaultRequests: {memory: VALUE}\n", "1e-99999999"},
		{balancing, prometheus + "defaultRequests: {memory: VALUE}\n", "1000e999"},
		{packing, prometheus + "defaultRequestsMultiplier: VALUE\n", "1e308"},
		{packing, "watcherAddress: VALUE\nmetricProvider: {type: SignalFx, token: hunter2}\n", "https://load-watcher.kube-system.svc:2020/prefix"},
		{packing, "metricProvider: {type: Prometheus, address: VALUE}\n", "http://[::1]:65535"},
		{packing, prometheus + "window: VALUE\nrefreshInterval: 1s\nmaxAge: 2562047h\ndriftTolerance: 1e308\n", "59m59.999s"},
		{balancing, "safeVarianceMargin: 1\nsafeVarianceSensitivity: 0.5\n", ""},
		{balancing, prometheus + "safeVarianceMargin: .nan\nsafeVarianceSensitivity: -0\n", ""},
		{balancing, "metricProvider: {token: VALUE}\n", "a token"},
		{threshold, prometheus + "thresholds: {cpu: 70, memory: 85}\nwindows: {cpu: VALUE}\nstatistic: MeanPlusStdDev\nstdDevFactor: 2\nwhenNoneFits: Reject\n", "10s"},
		{threshold, prometheus + "exempt: {priorityClassNames: [a], podSelector: {matchExpressions: [{key: VALUE, operator: In, values: [b]}]}}\n", "example.com/a"},
		{threshold, "thresholds: {cpu: 0}\nthresholds: {}\nx: y\n", ""},
		{metrics, metric + "weight: 1, bounds: {best: 0, worst: 1}, reject: VALUE}]\n", "> 5"},
		{metrics, prometheus + "metrics: [{name: a, query: VALUE, prefer: Lower}]\n", "max by (node) (rate(a[5m]))"},
		{metrics, prometheus + "metrics: [{name: VALUE, query: a, prefer: Higher}]\n", "latency"},
		{metrics, "metricProvider: {type: Prometheus, address: 'http://a', nodeLabels: [VALUE], queries: {cpu: VALUE}, timeout: 1ns, dialect: Kubelet}\n" +
			"metrics: [{name: a, query: b, prefer: Lower}]\n", "node"},
		{metrics, "metrics: [&a [*a]]", ""},
	} {
		f.Add(uint8(slices.Index(plugins, seed.plugin)), seed.fields, seed.value)
	}
	plimsoll := runtime.NewScheme()
	check.OK(f, scheme.AddToScheme(plimsoll))
	codecs := serializer.NewCodecFactory(plimsoll, serializer.EnableStrict)
	yaml, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		f.Fatal("there is no serializer for YAML")
	}
	encoder := codecs.EncoderForVersion(yaml.Serializer, v1.SchemeGroupVersion)
	cluster := source.Cluster{Nodes: corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), KubeConfig: &rest.Config{}}

	// longest is generous for a busy machine: a query of this size is parsed in milliseconds.
	const longest, size = 20 * time.Second, 64 << 10
	f.Fuzz(func(t *testing.T, plugin uint8, fields, value string) {
		quoted, err := json.Marshal(value) // YAML can be quoted like JSON
		check.OK(t, err)
		name := plugins[int(plugin)%len(plugins)]
		text := fmt.Sprintf("apiVersion: %s\nkind: %sArgs\n%s", v1.SchemeGroupVersion, name,
			strings.ReplaceAll(fields, "VALUE", string(quoted)))
		if len(text) > size {
			t.Skip("a scheduler takes larger files, but the fuzzer would do little else")
		}
		began := time.Now()
		args, err := runtime.Decode(codecs.UniversalDecoder(), []byte(text))
		if err == nil {
			err = validation.ValidateArgs(nil, args)
		}
		if took := time.Since(began); took > longest {
			t.Errorf("decoding and validating took %s, want at most %s", took, longest)
		}
		if err != nil {
			return
		}
		spec := config.LoadSpecOf(args)
		if spec != nil { // DecisionRecord reads no load
			if validation.ValidateCredentials(nil, spec) != nil {
				return
			}
			if _, err := sources.Open(t.Context(), cluster, *spec, sources.Account{}, clock.RealClock{}); err != nil {
				t.Errorf("the arguments are valid, but their source cannot be opened: %v\n%s", err, text)
			}
			if spec.MetricProvider.Token != "" || spec.MetricProvider.ApplicationKey != "" {
				return // a token is not written
			}
		}
		written, err := runtime.Encode(encoder, args)
		if err != nil {
			t.Fatalf("writing valid arguments: %v\n%s", err, text)
		}
		again, err := runtime.Decode(codecs.UniversalDecoder(), written)
		if err != nil {
			t.Fatalf("reading arguments that were written: %v\n%s", err, written)
		}
		if err := validation.ValidateArgs(nil, again); err != nil {
			t.Errorf("arguments are not valid once they were written and read again: %v\n%s", err, written)
		}
		if spec == nil {
			return
		}
		specAgain := config.LoadSpecOf(again)
		if !reflect.DeepEqual(sourceSpecOf(*spec), sourceSpecOf(*specAgain)) {
			t.Errorf("the source is %+v, but once it was written and read again it is %+v", *spec, *specAgain)
		}
	})
}
