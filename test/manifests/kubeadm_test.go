package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	kubeadmstrict "k8s.io/kubernetes/cmd/kubeadm/app/util/config/strict"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// image is for the minor version of go.mod.
const image = "ghcr.io/plimsoll-scheduler/plimsoll:0.2.0-k8s1.37"

func TestKubeadm_AppliesPatch(t *testing.T) {
	stock := controlplane.GetStaticPodSpecs(&kubeadmapi.ClusterConfiguration{
		KubernetesVersion: kubernetesVersion(t),
		Scheduler:         kubeadmapi.ControlPlaneComponent{ExtraArgs: []kubeadmapi.Arg{{Name: "v", Value: "4"}}},
	}, &kubeadmapi.APIEndpoint{}, nil)["kube-scheduler"]
	patched := check.Value(staticpod.PatchStaticPod(&stock, filepath.Join(root, "manifests", "default-scheduler", "patches"),
		t.Output()))(t)
	was, is := stock.Spec.Containers[0], patched.Spec.Containers[0]
	if len(patched.Spec.Containers) != 1 || is.Image != image {
		t.Errorf("containers are %+v", patched.Spec.Containers)
	}
	// The flags of kubeadm and those of its configuration do not change.
	if diff := cmp.Diff(was.Command, is.Command); diff != "" || !slices.Contains(is.Command, "--v=4") {
		t.Errorf("command (-stock +patched):\n%s", diff)
	}
	check.Equal(t, "args", []string{"--config=/etc/kubernetes/plimsoll/config.yaml"}, is.Args)
	if is.SecurityContext.RunAsUser == nil || *is.SecurityContext.RunAsUser != 0 {
		t.Error("the container is not root, so it cannot read scheduler.conf")
	}
	check.Equal(t, "liveness probe (want: stock)", was.LivenessProbe, is.LivenessProbe)
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
	check.Equal(t, "mounts", want, mounts)
	c := load(t, string(read(t, "manifests", "default-scheduler", "config.yaml")))
	check.Equal(t, "the first profile", corev1.DefaultSchedulerName, c.Profiles[0].SchedulerName)
	// With --config the scheduler ignores --kubeconfig, so the configuration must name the kubeconfig that kubeadm mounts.
	check.Equal(t, "the kubeconfig", "/etc/kubernetes/scheduler.conf", c.ClientConnection.Kubeconfig)
}

// TestKubeadm_DocumentedCommands runs the commands of docs/default-scheduler.md in order, below a root folder of the test. It
// replaces the programs that need a cluster.
func TestKubeadm_DocumentedCommands(t *testing.T) {
	node := newNode(t)
	stock := "registry.k8s.io/kube-scheduler:" + kubernetesVersion(t)
	install, remove := kubeadmCommands(t)
	for _, step := range []struct{ name, commands, want string }{
		{"install", install, image},
		{"install again", install, image}, // as after a change of the configuration
		{"remove", remove, stock},
		{"install after removing", install, image},
	} {
		check.Equal(t, "the image after "+step.name, step.want, node.run(step.commands))
	}
}

func kubeadmCommands(t *testing.T) (install, remove string) {
	t.Helper()
	var blocks []string
	inBlock := false
	for line := range strings.Lines(string(read(t, "docs", "default-scheduler.md"))) {
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && inBlock:
			blocks[len(blocks)-1] += command
		case indented:
			blocks = append(blocks, command)
		}
		inBlock = indented
	}
	blocks = slices.DeleteFunc(blocks, func(block string) bool { return !strings.Contains(block, "kubeadm init ") })
	if len(blocks) != 2 {
		t.Fatalf("%d blocks run kubeadm, want one that installs Plimsoll and one that removes it: %q", len(blocks), blocks)
	}
	return blocks[0], blocks[1]
}

type node struct {
	t *testing.T
	// root is the folder of its files, programs that of the replaced programs.
	root, programs string
}

func newNode(t *testing.T) node {
	t.Helper()
	n := node{t, t.TempDir(), t.TempDir()}
	check.OK(t, os.MkdirAll(n.path("etc/kubernetes/manifests"), 0o700))
	for name, script := range map[string]string{
		"crictl": `[ "$*" = "pull ` + image + `" ]`,
		"kubectl": `case "$*" in *"-n kube-system get configmap kubeadm-config -o jsonpath={.data.ClusterConfiguration}") ;; *) exit 1 ;; esac
cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ` + kubernetesVersion(t) + `
networking: {serviceSubnet: 10.96.0.0/12}
END`,
		"kubeadm": `printf '%s\n' "$@" >` + n.path("arguments"),
	} {
		check.OK(t, os.WriteFile(filepath.Join(n.programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	return n
}

func (n node) path(name string) string { return filepath.Join(n.root, name) }

// run runs commands of which the last is kubeadm, and returns the image in the manifest that kubeadm writes.
func (n node) run(commands string) string {
	n.t.Helper()
	commands = strings.ReplaceAll(commands, "/etc/kubernetes", n.path("etc/kubernetes"))
	if foreign := regexp.MustCompile(`(?m)(^|[\s'":=>])/\w.*`).
		FindString(strings.ReplaceAll(commands, n.root, "ROOT")); foreign != "" {
		n.t.Fatalf("the commands would touch files of this machine: %s", foreign)
	}
	shell := exec.CommandContext(n.t.Context(), "sh", "-euc", commands)
	shell.Dir = filepath.Join(root, "manifests", "default-scheduler")
	shell.Env = append(os.Environ(), "PATH="+n.programs+":"+os.Getenv("PATH"))
	if output, err := shell.CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s\n%s", err, output, commands)
	}
	arguments := check.Value(os.ReadFile(n.path("arguments")))(n.t)
	if err := n.kubeadm(strings.Split(strings.TrimSpace(string(arguments)), "\n")); err != nil {
		n.t.Fatalf("kubeadm: %v\n%s", err, commands)
	}
	pod := check.Value(staticpod.ReadStaticPodFromDisk(n.path("etc/kubernetes/manifests/kube-scheduler.yaml")))(n.t)
	return pod.Spec.Containers[0].Image
}

// kubeadm runs the phase "init phase control-plane scheduler" with kubeadm's own functions. The whole command would need the
// modules of its other phases.
func (n node) kubeadm(arguments []string) error {
	phase := []string{"init", "phase", "control-plane", "scheduler"}
	if len(arguments) < len(phase) || !slices.Equal(arguments[:len(phase)], phase) {
		return fmt.Errorf("the command is %q", arguments)
	}
	var file, patches string
	flags := pflag.NewFlagSet("kubeadm", pflag.ContinueOnError)
	options.AddConfigFlag(flags, &file)
	options.AddPatchesFlag(flags, &patches)
	if err := flags.Parse(arguments[len(phase):]); err != nil {
		return err
	}
	if err := validation.ValidateMixedArguments(flags); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents, err := kubeadmutil.SplitConfigDocuments(content) // refuses two documents of one kind
	if err != nil {
		return err
	}
	var (
		ofInit    kubeadmapi.InitConfiguration
		ofCluster kubeadmapi.ClusterConfiguration
	)
	kinds := map[string]runtime.Object{"InitConfiguration": &ofInit, "ClusterConfiguration": &ofCluster}
	for kind, document := range documents {
		into, ok := kinds[kind.Kind]
		if !ok {
			return fmt.Errorf("a document is of kind %s", kind)
		}
		if err := kubeadmstrict.VerifyUnmarshalStrict([]*runtime.Scheme{kubeadmscheme.Scheme}, kind, document); err != nil {
			return err
		}
		if err := runtime.DecodeInto(kubeadmscheme.Codecs.UniversalDecoder(), document, into); err != nil {
			return err
		}
	}
	if ofInit.Patches != nil {
		patches = ofInit.Patches.Directory
	}
	return controlplane.CreateStaticPodFiles(n.path("etc/kubernetes/manifests"), patches, &ofCluster, &ofInit.LocalAPIEndpoint, false,
		"kube-scheduler")
}
