package manifests_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // decodes the plugins' args
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// load returns a configuration as the scheduler reads it, and fails the test if it is invalid.
func load(t *testing.T, text string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	file := check.File(t, "config.yaml", text)
	logger, _ := ktesting.NewTestContext(t)
	c := check.Value(options.LoadConfigFromFile(logger, file))(t)
	if err := schedulervalidation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Error(err)
	}
	check.OK(t, validation.ValidatePluginConfigs(c, true))
	return c
}

func rendered(t *testing.T, stream []byte) string {
	t.Helper()
	return find[corev1.ConfigMap](t, objects(t, stream), "ConfigMap")[0].Data["config.yaml"]
}

func TestConfigurations_AreValid(t *testing.T) {
	tests := []struct {
		name, text       string
		profiles         []string
		lease, namespace string
	}{
		{"the second scheduler", rendered(t, read(t, "manifests", "second-scheduler.yaml")), []string{"plimsoll"}, "plimsoll", "plimsoll-system"},
		{
			"OpenShift's operator has the lease of its flags", rendered(t, read(t, "manifests", "openshift", "configmap.yaml")),
			[]string{"plimsoll"}, "secondary-scheduler", operatorNamespace,
		},
		{
			"the default scheduler has the stock one's lease", string(read(t, "manifests", "default-scheduler", "config.yaml")),
			[]string{"default-scheduler"}, "kube-scheduler", "kube-system",
		},
		{"all features on", withoutFiles(rendered(t, template(t, everythingOn))), []string{"plimsoll", "shared"}, "plimsoll", "plimsoll-system"},
		{"the stopgap has the second scheduler's lease", rendered(t, read(t, "manifests", "stopgap", "stopgap.yaml")), []string{"plimsoll"}, "plimsoll", "plimsoll-system"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := load(t, tt.text)
			var profiles []string
			for _, p := range c.Profiles {
				profiles = append(profiles, p.SchedulerName)
			}
			check.Equal(t, "profiles", tt.profiles, profiles)
			e := c.LeaderElection
			if !e.LeaderElect || e.ResourceName != tt.lease || e.ResourceNamespace != tt.namespace || e.ResourceLock != "leases" {
				t.Errorf("leader election is %+v, want by lease %s in %s", e, tt.lease, tt.namespace)
			}
		})
	}
}

func TestConfiguration_KeepsValues(t *testing.T) {
	c := load(t, rendered(t, template(t, `{replicas: 1, config: {
apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: 3, enableProfiling: false,
podMaxBackoffSeconds: 12000000, delayCacheUntilActive: false, clientConnection: {qps: 2500000, burst: 100},
leaderElection: {leaderElect: false, leaseDuration: 30s, resourceName: mine}}}`)))
	got := fmt.Sprintln(c.Parallelism, c.EnableProfiling, c.PodMaxBackoffSeconds, c.DelayCacheUntilActive, int(c.ClientConnection.QPS),
		c.ClientConnection.Burst, c.LeaderElection.LeaderElect, c.LeaderElection.LeaseDuration, c.LeaderElection.ResourceName,
		c.LeaderElection.ResourceNamespace)
	check.Equal(t, "values", "3 false 12000000 false 2500000 100 false {30s} mine plimsoll-system\n", got)
}

func kubernetesVersion(t *testing.T) string {
	t.Helper()
	return pinned(t, "go.mod")
}

func pinned(t *testing.T, file ...string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)$`).FindSubmatch(read(t, file...))
	if match == nil {
		t.Fatalf("%s does not require k8s.io/kubernetes", filepath.Join(file...))
	}
	return string(match[1])
}

// TestStopgap expects the stock scheduler of the Kubernetes version in go.mod, and objects of its own.
func TestStopgap(t *testing.T) {
	stopgap := objects(t, read(t, "manifests", "stopgap", "stopgap.yaml"))
	container := containerOf(t, stopgap)
	check.Equal(t, "the image", "registry.k8s.io/kube-scheduler:"+kubernetesVersion(t), container.Image)
	check.Equal(t, "the program", "/usr/local/bin/kube-scheduler", container.Command[0])
	for _, o := range stopgap {
		if o.GetKind() == "Namespace" || !strings.HasPrefix(o.GetName(), "plimsoll-stopgap") {
			t.Errorf("deleting the stopgap would delete %s %s of Plimsoll's own", o.GetKind(), o.GetName())
		}
	}
}
