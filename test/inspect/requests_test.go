package inspect

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/requests"
)

const webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: "web:1", resources: {requests: {cpu: 4}, limits: {cpu: 8}}}
      - {name: proxy, image: "proxy:1"}
`

// TestRequests_CommandsApply applies recommendations twice to a Deployment, whose other fields stay. Server-side apply would fail for
// the second time where kubectl apply made the Deployment.
func TestRequests_CommandsApply(t *testing.T) {
	for _, made := range []string{"create", "apply", "apply --server-side"} {
		t.Run(made, func(t *testing.T) {
			shared.clear(t)
			deployments := shared.Client.AppsV1().Deployments(metav1.NamespaceDefault)
			shared.shellReading(t, webDeployment, "kubectl "+made+" -f -")
			t.Cleanup(func() { _ = deployments.Delete(context.WithoutCancel(t.Context()), "web", metav1.DeleteOptions{}) })

			// The cluster's Prometheus measures pods, and no containers.
			for _, output := range []string{"table", "csv", "yaml", "commands"} {
				out := shared.plimsoll(t, "requests", "--history", "1h", "--min-history", "0s", "-o", output, metav1.NamespaceDefault).
					wants(t, 0).stdout
				if names, is := strings.Contains(out, "web"), output == "table" || output == "csv"; names != is {
					t.Errorf("output %q of %s, want the Deployment only where there are more than recommendations", out, output)
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
			for range 2 {
				var commands strings.Builder
				must(t, report.WriteCommands(&commands, cluster.Chosen{}))
				shared.shellReading(t, commands.String(), "sh -e")
				web, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
				must(t, err)
				app, proxy := web.Spec.Template.Spec.Containers[0], web.Spec.Template.Spec.Containers[1]
				is := app.Resources
				if app.Image != "web:1" || is.Requests.Cpu().Cmp(cpu) != 0 || is.Requests.Memory().Cmp(memory) != 0 ||
					is.Limits.Memory().Cmp(memory) != 0 || is.Limits.Cpu().String() != "8" {
					t.Errorf("container app has image %s and resources %+v, want 150m, 230Mi, and the cpu limit 8 as before", app.Image, is)
				}
				if proxy.Image != "proxy:1" || len(proxy.Resources.Requests) != 0 {
					t.Errorf("container proxy is %+v, want it as before", proxy)
				}
				cpu = resource.MustParse("160m")
			}
		})
	}
}
