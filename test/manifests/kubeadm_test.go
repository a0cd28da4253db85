package manifests_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"
)

func TestKubeadmTakesThePatch(t *testing.T) {
	stock := controlplane.GetStaticPodSpecs(&kubeadmapi.ClusterConfiguration{
		KubernetesVersion: kubernetesVersion(t),
		Scheduler: kubeadmapi.ControlPlaneComponent{
			ExtraArgs: []kubeadmapi.Arg{{Name: "v", Value: "4"}},
		},
	}, &kubeadmapi.APIEndpoint{}, nil)["kube-scheduler"]
	patched, err := staticpod.PatchStaticPod(&stock, filepath.Join(root, "manifests", "default-scheduler", "patches"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	was, is := stock.Spec.Containers[0], patched.Spec.Containers[0]
	if len(patched.Spec.Containers) != 1 || is.Image != "ghcr.io/plimsoll-scheduler/plimsoll:v0.1.0" {
		t.Errorf("containers are %+v", patched.Spec.Containers)
	}
	// kubeadm's flags and the operator's own stay as they are.
	if diff := cmp.Diff(was.Command, is.Command); diff != "" || !slices.Contains(is.Command, "--v=4") {
		t.Errorf("command (-stock +patched):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--config=/etc/kubernetes/plimsoll/config.yaml"}, is.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if is.SecurityContext.RunAsUser == nil || *is.SecurityContext.RunAsUser != 0 {
		t.Error("it could not read scheduler.conf, which is root's")
	}
	if diff := cmp.Diff(was.LivenessProbe, is.LivenessProbe); diff != "" {
		t.Errorf("liveness probe (-stock +patched):\n%s", diff)
	}
	mounts := map[string]string{}
	for _, m := range is.VolumeMounts {
		for _, v := range patched.Spec.Volumes {
			if v.Name == m.Name && m.ReadOnly {
				mounts[m.MountPath] = v.HostPath.Path
			}
		}
	}
	want := map[string]string{
		"/etc/kubernetes/scheduler.conf": "/etc/kubernetes/scheduler.conf",
		"/etc/kubernetes/plimsoll":       "/etc/kubernetes/plimsoll",
	}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if corev1.DefaultSchedulerName != load(t, string(read(t, "manifests", "default-scheduler", "config.yaml"))).Profiles[0].SchedulerName {
		t.Error("the default scheduler's pods have no profile")
	}
	// Reads the kubeconfig that kubeadm mounts: of --kubeconfig nothing is read beside --config.
	if c := load(t, string(read(t, "manifests", "default-scheduler", "config.yaml"))); c.ClientConnection.Kubeconfig != "/etc/kubernetes/scheduler.conf" {
		t.Errorf("the kubeconfig is %q", c.ClientConnection.Kubeconfig)
	}
}
