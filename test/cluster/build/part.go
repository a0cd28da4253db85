package build

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Part is one program.
type Part struct {
	// Name is the name of the program in bin/.
	Name string
	// Package is the import path of its main package.
	Package string
	// Module is the path of the module that Package belongs to. It is empty for a program of this repository. That has no version to
	// compare, so the Go toolchain gets it every time.
	Module string
	// Dir is the folder, relative to the root of this repository, of the go.mod that pins the version of Module.
	Dir string
	// Tags are build tags.
	Tags []string
	// KubernetesVersion makes the linker set the version of Kubernetes. Without it an API server reports a version that kubectl
	// cannot parse.
	KubernetesVersion bool
	// Race builds with the race detector, which takes a C compiler.
	Race bool
}

// All returns the parts of a cluster, and the tools that render and test manifests. Programs whose dependencies differ from the
// scheduler's are pinned in modules of their own.
func All() []Part {
	return []Part{
		Etcd(), KubeAPIServer(), Kubectl(), KWOK(), Prometheus(), Promtool(), MetricsServer(), Helm(), Kubeconform(),
		KubeScheduler(), KubeSchedulerRace(), StockKubeScheduler(), IdleKubeScheduler(), LoadWatcher(), Rebalancer(), KubectlPlimsoll(),
	}
}

// Etcd is the store of the API server, of one version for all minor versions of Kubernetes.
func Etcd() Part {
	return Part{Name: "etcd", Package: "go.etcd.io/etcd/server/v3", Module: "go.etcd.io/etcd/server/v3"}
}

// KubeAPIServer is the API server, in the version of the scheduler.
func KubeAPIServer() Part {
	return Part{
		Name: "kube-apiserver", Package: "k8s.io/kubernetes/cmd/kube-apiserver", Module: kubernetesModule, KubernetesVersion: true,
	}
}

// Kubectl is the command line client, in the version of the scheduler.
func Kubectl() Part {
	return Part{Name: "kubectl", Package: "k8s.io/kubernetes/cmd/kubectl", Module: kubernetesModule, KubernetesVersion: true}
}

// KubeScheduler is the scheduler of this repository.
func KubeScheduler() Part {
	return Part{Name: "kube-scheduler", Package: modulePath + "/cmd/kube-scheduler", KubernetesVersion: true}
}

// StockKubeScheduler is the scheduler of Kubernetes.
func StockKubeScheduler() Part {
	return Part{
		Name: "stock-kube-scheduler", Package: "k8s.io/kubernetes/cmd/kube-scheduler", Module: kubernetesModule, KubernetesVersion: true,
	}
}

// IdleKubeScheduler is the scheduler of Kubernetes with plugins that do nothing, or waste time.
func IdleKubeScheduler() Part {
	return Part{Name: "idle-kube-scheduler", Package: modulePath + "/test/perf/idlescheduler", KubernetesVersion: true}
}

// LoadWatcher is the load-watcher of this repository.
func LoadWatcher() Part {
	return Part{Name: "load-watcher", Package: modulePath + "/cmd/load-watcher", KubernetesVersion: true}
}

// Rebalancer is the rebalancer of this repository.
func Rebalancer() Part {
	return Part{Name: "rebalancer", Package: modulePath + "/cmd/rebalancer", KubernetesVersion: true}
}

// KubectlPlimsoll is the kubectl plugin of this repository.
func KubectlPlimsoll() Part {
	return Part{Name: "kubectl-plimsoll", Package: modulePath + "/cmd/kubectl-plimsoll", KubernetesVersion: true}
}

// KubeSchedulerRace is KubeScheduler with the race detector.
func KubeSchedulerRace() Part {
	part := KubeScheduler()
	part.Name, part.Race = part.Name+"-race", true
	return part
}

// KWOK simulates the kubelets.
func KWOK() Part {
	return Part{Name: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok", Module: "sigs.k8s.io/kwok", Dir: filepath.Join(partsDir, "kwok")}
}

// Prometheus measures the nodes. It has only the service discovery that a cluster uses, which halves the time of the build.
func Prometheus() Part {
	return Part{
		Name: "prometheus", Package: "github.com/prometheus/prometheus/cmd/prometheus", Module: "github.com/prometheus/prometheus",
		Dir: filepath.Join(partsDir, "prometheus"), Tags: []string{"remove_all_sd", "enable_http_sd"},
	}
}

// Promtool tests the alerts, in the version of Prometheus.
func Promtool() Part {
	part := Prometheus()
	part.Name, part.Package = "promtool", "github.com/prometheus/prometheus/cmd/promtool"
	return part
}

// Helm renders the chart.
func Helm() Part {
	return Part{Name: "helm", Package: "helm.sh/helm/v4/cmd/helm", Module: "helm.sh/helm/v4", Dir: filepath.Join(toolsDir, "helm")}
}

// Kubeconform checks manifests against schemas.
func Kubeconform() Part {
	return Part{
		Name: "kubeconform", Package: "github.com/yannh/kubeconform/cmd/kubeconform", Module: "github.com/yannh/kubeconform",
		Dir: filepath.Join(toolsDir, "kubeconform"),
	}
}

// MetricsServer serves metrics.k8s.io.
func MetricsServer() Part {
	return Part{
		Name: "metrics-server", Package: "sigs.k8s.io/metrics-server/cmd/metrics-server", Module: "sigs.k8s.io/metrics-server",
		Dir: filepath.Join(partsDir, "metrics-server"),
	}
}

const (
	modulePath       = "github.com/plimsoll-scheduler/plimsoll"
	kubernetesModule = "k8s.io/kubernetes"
	partsDir         = "test/cluster/parts"
	toolsDir         = "hack/tools"
	minorsDir        = "hack/kubernetes"
)

func minorTag(minor string) string { return "kubernetes_" + strings.ReplaceAll(minor, ".", "_") }

func (p Part) dependsOnMinor() bool { return p.Module == "" || p.Module == kubernetesModule }

// flags returns the flags of go build. kubernetes is the version of Kubernetes, such as v1.36.3; own is the version of this
// repository.
func (p Part) flags(kubernetes, own string) ([]string, error) {
	var flags, linker []string
	if p.Race {
		flags = append(flags, "-race")
	}
	if len(p.Tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(p.Tags, ","))
	}
	if p.Module == "" {
		linker = append(linker, "-X main.version="+own)
	}
	if p.KubernetesVersion {
		l, err := kubernetesLinkerFlags(kubernetes)
		if err != nil {
			return nil, err
		}
		linker = append(linker, l)
	}
	if len(linker) > 0 {
		flags = append(flags, "-ldflags="+strings.Join(linker, " "))
	}
	return flags, nil
}

// environment returns the environment variables that go build needs for this part.
func (p Part) environment() []string {
	if p.Race {
		return []string{"CGO_ENABLED=1"}
	}
	return []string{"CGO_ENABLED=0"}
}

func kubernetesLinkerFlags(version string) (string, error) {
	const variable = "k8s.io/component-base/version."
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 || !strings.HasPrefix(version, "v") {
		return "", fmt.Errorf("version of Kubernetes %q is not of the form v1.2.3", version)
	}
	return fmt.Sprintf("-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s",
		variable, version, numbers[0], numbers[1]), nil
}
