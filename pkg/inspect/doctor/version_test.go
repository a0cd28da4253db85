package doctor

import (
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// deployment returns a scheduler of the chart.
func deployment(image string) *cluster.Workload {
	return &cluster.Workload{
		Kind: "Deployment", Namespace: "team", Name: "lines-plimsoll", Container: "kube-scheduler", Image: image,
		Args: []string{"/bin/kube-scheduler"}, Release: "lines", ChartVersion: "0.1.0",
	}
}

func versions(scheduler, server, command string, w *cluster.Workload) []Result {
	f := &Facts{Configuration: &cluster.Configuration{Workload: w}, server: cluster.Server{GitVersion: server}, commandVersion: command}
	f.metrics = model.Vector{{Metric: model.Metric{"__name__": "plimsoll_build_info", "kubernetes": model.LabelValue(scheduler)}}}
	return append(f.checkVersion(), f.checkCommand()...)
}

func TestVersionChecks(t *testing.T) {
	for _, tt := range []struct {
		scheduler, server string
		want              Status
	}{
		{"v1.36.3", "v1.36.0", OK}, {"v1.36.3", "v1.37.1", OK}, {"v1.36.3", "v1.38.0", Warning}, {"v1.36.3", "v1.35.9", Error}, {"v1.36.3", "v1.36.2-eks-1234", OK}, {"main", "v1.36.0", Warning},
		{"1.37", "v1.37.1", OK}, {"1.37", "v1.36.4", Error},
	} {
		if got := versions(tt.scheduler, tt.server, "v0.0.0", nil); len(got) != 1 || got[0].Status != tt.want {
			t.Errorf("scheduler %s with API server %s: %+v, want %s", tt.scheduler, tt.server, got, tt.want)
		}
	}
}

// TestVersionChecks_Command expects a warning if explain would decide by the stock plugins of another minor.
func TestVersionChecks_Command(t *testing.T) {
	w := deployment("plimsoll:0.1.0-k8s1.36")
	if got := versions("1.36", "v1.36.4", "v1.36.9", w); len(got) != 1 {
		t.Errorf("the same minor: %+v", got)
	}
	got := versions("1.36", "v1.36.4", "v1.37.1", w)
	const message, command = "this kubectl-plimsoll is of Kubernetes 1.37, the scheduler of 1.36", "kubectl -n team exec deploy/lines-plimsoll -c kube-scheduler -- kubectl-plimsoll doctor"
	if len(got) != 2 || got[1].Status != Warning || !strings.Contains(got[1].Message, message) || got[1].Advice[0].Command != command {
		t.Errorf("another minor: %+v", got)
	}
}

func TestSchedulerVersion(t *testing.T) {
	w := deployment("plimsoll:0.1.0-k8s1.37")
	w.Pods = []string{"lines-1"}
	plimsoll := func(version, pod string) *model.Sample {
		return &model.Sample{
			Metric: model.Metric{"__name__": "plimsoll_build_info", "kubernetes": model.LabelValue(version), "pod": model.LabelValue(pod)},
		}
	}
	stock := &model.Sample{Metric: model.Metric{"__name__": "kubernetes_build_info", "git_version": "v1.36.3"}}
	for _, tt := range []struct {
		name     string
		metrics  model.Vector
		workload *cluster.Workload
		want     string
	}{
		{"the metric of Kubernetes", model.Vector{stock}, w, "v1.36.3"},
		{"Plimsoll's metric", model.Vector{plimsoll("v1.36.4", "")}, w, "v1.36.4"},
		{"no metrics, and a tag", nil, w, "1.37"},
		{"metrics of another scheduler's pod", model.Vector{plimsoll("v1.36.4", "other-1")}, w, "1.37"},
		{"metrics of its own pod and of another one", model.Vector{plimsoll("v1.36.4", "other-1"), plimsoll("v1.37.1", "lines-1")}, w, "v1.37.1"},
		{"a rollout from one version to the next", model.Vector{plimsoll("v1.36.4", ""), plimsoll("v1.37.1", "")}, w, "1.37"},
		{"a tag without a minor", nil, deployment("plimsoll:mine"), ""},
		{"no workload", nil, nil, ""},
		{"no workload, and metrics", model.Vector{plimsoll("v1.36.4", "lines-1")}, nil, "v1.36.4"},
	} {
		f := &Facts{Configuration: &cluster.Configuration{Workload: tt.workload}, metrics: tt.metrics}
		if tt.name != "the metric of Kubernetes" { // read at the scheduler's port, it has no pod label
			f.metrics = f.ofScheduler(f.metrics)
		}
		check.Equal(t, tt.name+": schedulerVersion", tt.want, f.schedulerVersion())
	}
}

func TestCheckVersion(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		metrics     model.Vector
		want        Status
		message     string
	}{
		{"a tag that is newer than the API server", "plimsoll:0.1.0-k8s1.37", nil, Error, "the scheduler is built from Kubernetes 1.37; the API server runs v1.36.4, image plimsoll:0.1.0-k8s1.37"},
		{"a version by metrics", "plimsoll:mine", model.Vector{{Metric: model.Metric{"__name__": "plimsoll_build_info", "kubernetes": "v1.37.1"}}},
			Error, "the scheduler is built from Kubernetes v1.37.1; the API server runs v1.36.4"},
	} {
		f := &Facts{
			server: cluster.Server{GitVersion: "v1.36.4"}, metrics: tt.metrics,
			Configuration: &cluster.Configuration{Workload: deployment(tt.image)},
		}
		c := f.checkVersion()[0]
		if c.Status != tt.want || !strings.Contains(c.Message, tt.message) || !strings.Contains(c.Advice[0].Text, "image.tag") {
			t.Errorf("%s: got %+v, want %s: %s, and how to set the image", tt.name, c, tt.want, tt.message)
		}
	}
}
