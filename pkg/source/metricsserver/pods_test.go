package metricsserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

func fetchPods(t *testing.T, cfg *rest.Config) (usages []source.PodUsage, failed [load.ResourceCount]error) {
	t.Helper()
	s, err := NewPodSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	failed = s.FetchPods(t.Context(), 1000, func(u *source.PodUsage) { usages = append(usages, *u) })
	return usages, failed
}

func TestFetchPods(t *testing.T) {
	pod := func(name string, usages ...corev1.ResourceList) metricsv1beta1.PodMetrics {
		m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Timestamp: metav1.NewTime(end)}
		for i, usage := range usages {
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: fmt.Sprint(i), Usage: usage})
		}
		return m
	}
	var asked []string
	usages, failed := fetchPods(t, configOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		writeJSON(t, w, http.StatusOK, metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{
			pod("a", list("cpu", "250m", "memory", "1Ki"), list("cpu", "1500000n", "memory", "1Ki")),
			pod("b", list("cpu", "1", "memory", "1Ki"), list("cpu", "1")), // one container's memory is not known
			pod("c"),
		}})
	}))
	if failed != [load.ResourceCount]error{} {
		t.Fatal(failed)
	}
	want := []source.PodUsage{
		{Namespace: "shop", Pod: "a", Resource: load.CPU, Usage: 251.5},
		{Namespace: "shop", Pod: "a", Resource: load.Memory, Usage: 2048},
		{Namespace: "shop", Pod: "b", Resource: load.CPU, Usage: 2000},
	}
	if diff := cmp.Diff(want, usages); diff != "" {
		t.Errorf("usages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GET /apis/metrics.k8s.io/v1beta1/pods"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestFetchPods_Errors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		respond http.HandlerFunc
		want    []string
	}{
		{"not installed", http.NotFound, []string{"list pods of metrics.k8s.io", "metrics-server is not installed"}},
		{"not allowed", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(t, w, http.StatusForbidden, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden,
			})
		}, []string{"the resource pods of the API group metrics.k8s.io"}},
		{"objects without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[`)
			repeat(w, `{"metadata":{"name":"x"},"containers":[{"usage":{"cpu":"1"}}]},`)
		}, []string{"the bound for 1000 pods"}},
		{"a quantity that takes forever", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"n1"},"containers":[{"usage":{"cpu":"1.5e-99999999"}}]}]}`)
		}, []string{"is no quantity"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, failed := fetchPods(t, configOf(t, tt.respond))
			for _, err := range failed {
				for _, part := range tt.want {
					if err == nil || !strings.Contains(err.Error(), part) || len(err.Error()) > 1<<10 {
						t.Errorf("error %.2000v, want a short one with %q", err, part)
					}
				}
			}
		})
	}
}
