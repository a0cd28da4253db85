package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// deployment returns a scheduler of the chart.
func deployment(image string) *cluster.Workload {
	return &cluster.Workload{
		Kind:         "Deployment",
		Namespace:    "team",
		Name:         "lines-plimsoll",
		Container:    "kube-scheduler",
		Image:        image,
		Args:         []string{"/bin/kube-scheduler"},
		Release:      "lines",
		ChartVersion: "0.1.0",
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

// TestVersionChecks_Advice expects how each kind of installation gets another image.
func TestVersionChecks_Advice(t *testing.T) {
	const image, of36 = "r:5000/plimsoll:0.1.0-k8s1.37", "r:5000/plimsoll:0.1.0-k8s1.36"
	unreleased := deployment("r:5000/mine:1")
	unreleased.Release = ""
	operator := deployment(image)
	operator.Namespace, operator.Name = "openshift-secondary-scheduler-operator", "secondary-scheduler"
	static := deployment(image)
	static.Kind, static.Namespace, static.Name = "Pod", "kube-system", "kube-scheduler-a"
	for _, tt := range []struct {
		name     string
		workload *cluster.Workload
		want     []string
	}{
		{"nothing is known of the workload", nil, []string{"Run the image of Plimsoll for Kubernetes 1.36"}},
		{"a release of the chart", deployment(image), []string{
			"image.tag", "helm upgrade lines oci://ghcr.io/plimsoll-scheduler/charts/plimsoll --version 0.1.0 --namespace team --reset-then-reuse-values",
		}},
		{"a Deployment without the chart's labels", unreleased, []string{"kubectl -n team set image deployment/lines-plimsoll kube-scheduler=IMAGE"}},
		{"OpenShift's operator", operator, []string{"spec.schedulerImage to " + of36}},
		{"a static pod", static, []string{"Write " + of36 + " into the patch", "manifests/default-scheduler"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := versions("v1.37.1", "v1.36.4", "", tt.workload)[0]
			if check.Status != Error || !strings.Contains(check.Message, "it may place no pod") || len(check.Advice) != 1 {
				t.Fatalf("got %+v, want an error with one advice", check)
			}
			text := fmt.Sprint(check.Advice)
			for _, part := range append(tt.want, "for Kubernetes 1.36") {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in %s", part, text)
				}
			}
		})
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
		if got := f.schedulerVersion(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		metrics     model.Vector
		want        Status
		// message is a part of the message, and command a part of the advice.
		message, command string
	}{
		{"a tag that is newer than the API server", "plimsoll:0.1.0-k8s1.37", nil, Error, "the scheduler is built from Kubernetes 1.37; the API server runs v1.36.4, image plimsoll:0.1.0-k8s1.37", "helm upgrade lines"},
		{"a version that is not known", "plimsoll:mine", nil, Warning, "neither the scheduler's metrics nor the tag of its image plimsoll:mine name its version",
			"kubectl -n team exec deploy/lines-plimsoll -c kube-scheduler -- /bin/kube-scheduler --version"},
		{"a version by metrics", "plimsoll:mine", model.Vector{{Metric: model.Metric{"__name__": "plimsoll_build_info", "kubernetes": "v1.37.1"}}},
			Error, "the scheduler is built from Kubernetes v1.37.1; the API server runs v1.36.4", "helm upgrade lines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Facts{
				server:        cluster.Server{GitVersion: "v1.36.4"},
				Configuration: &cluster.Configuration{Workload: deployment(tt.image)},
				metrics:       tt.metrics,
			}
			c := f.checkVersion()[0]
			if c.Status != tt.want || !strings.Contains(c.Message, tt.message) || !strings.Contains(c.Advice[0].Command, tt.command) {
				t.Errorf("got %+v, want %s: %s, and advice with %s", c, tt.want, tt.message, tt.command)
			}
		})
	}
}

func TestHelmCommand(t *testing.T) {
	rendered := deployment("")
	rendered.Release = ""
	for _, tt := range []struct {
		workload *cluster.Workload
		want     string
	}{
		{deployment(""), "helm upgrade lines oci://ghcr.io/plimsoll-scheduler/charts/plimsoll --version 0.1.0 --namespace team --reset-then-reuse-values --set a=b"},
		{rendered, ""},
		{nil, ""},
	} {
		if got := tt.workload.HelmCommand("a=b").For(cluster.Chosen{}); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}
