package inspect

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/requests"
)

// TestRequests_PatchesApply applies recommendations to a Deployment, whose other fields stay.
func TestRequests_PatchesApply(t *testing.T) {
	shared.clear(t)
	ctx, deployments := t.Context(), shared.Client.AppsV1().Deployments(metav1.NamespaceDefault)
	labels := map[string]string{"app": "web"}
	containers := []corev1.Container{
		{Name: "app", Image: "web:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
		}},
		{Name: "proxy", Image: "proxy:1"},
	}
	_, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers}},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}) })

	// The cluster's Prometheus measures pods, and no containers.
	for _, output := range []string{"-o table", "-o csv", "-o yaml"} {
		args := append([]string{"requests", "--history", "1h", "--min-history", "0s"}, strings.Fields(output)...)
		out := shared.plimsoll(t, append(args, metav1.NamespaceDefault)...).wants(t, 0).stdout
		if names := strings.Contains(out, "web"); names != (output != "-o yaml") {
			t.Errorf("output %q of %s, want the Deployment in all but yaml, which has recommendations alone", out, output)
		}
	}

	cpu, memory := resource.MustParse("150m"), resource.MustParse("230Mi")
	report := requests.Report{Workloads: []*requests.Workload{{
		Namespace: metav1.NamespaceDefault, APIVersion: "apps/v1", Kind: "Deployment", Name: "web",
		Containers: []*requests.Container{{
			Name: "app", CPU: requests.Resource{RecommendedRequest: &cpu},
			Memory: requests.Resource{RecommendedRequest: &memory, RecommendedLimit: &memory},
		}, {Name: "proxy"}},
	}}}
	var patches strings.Builder
	must(t, report.WritePatches(&patches))
	shared.shellReading(t, patches.String(), "kubectl apply --server-side --force-conflicts -f -")

	web, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
	app, proxy := web.Spec.Template.Spec.Containers[0], web.Spec.Template.Spec.Containers[1]
	if app.Image != "web:1" || app.Resources.Requests.Cpu().Cmp(cpu) != 0 || app.Resources.Requests.Memory().Cmp(memory) != 0 ||
		app.Resources.Limits.Memory().Cmp(memory) != 0 || app.Resources.Limits.Cpu().String() != "8" {
		t.Errorf("container app has image %s and resources %+v, want 150m and 230Mi, and the cpu limit of 8 as before", app.Image, app.Resources)
	}
	if proxy.Image != "proxy:1" || len(proxy.Resources.Requests) != 0 {
		t.Errorf("container proxy is %+v, want it as before", proxy)
	}
}
