package build

import (
	"fmt"
	"path"
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
	// Race builds with the race detector, which takes a C compiler.
	Race bool
}

// All returns the parts of a cluster, and the tools that render and test manifests. Programs whose dependencies differ from the
// scheduler's are pinned in modules of their own.
func All() []Part {
	return []Part{
		Etcd(), KubeAPIServer(), Kubectl(), KWOK(), Prometheus(), Promtool(), MetricsServer(), Helm(),
		KubeScheduler(), KubeSchedulerRace(), StockKubeScheduler(), LoadWatcher(), Rebalancer(), KubectlPlimsoll(),
	}
}

// own returns a program of this repository.
func own(name string) Part { return Part{Name: name, Package: modulePath + "/cmd/" + name} }

// ofKubernetes returns a program of Kubernetes.
func ofKubernetes(name, program string) Part {
	return Part{Name: name, Package: kubernetesModule + "/cmd/" + program, Module: kubernetesModule}
}

// of returns a program whose module a go.mod in the folder pins.
func of(module, program, folder string) Part {
	name := path.Base(program)
	return Part{Name: name, Package: path.Join(module, program), Module: module, Dir: filepath.Join(folder, path.Base(module))}
}

// Etcd is the store of the API server, of one version for all minor versions of Kubernetes.
func Etcd() Part {
	return Part{Name: "etcd", Package: "go.etcd.io/etcd/server/v3", Module: "go.etcd.io/etcd/server/v3"}
}

// KubeAPIServer is the API server, in the version of the scheduler.
func KubeAPIServer() Part { return ofKubernetes("kube-apiserver", "kube-apiserver") }

// Kubectl is the command line client, in the version of the scheduler.
func Kubectl() Part { return ofKubernetes("kubectl", "kubectl") }

// StockKubeScheduler is the scheduler of Kubernetes.
func StockKubeScheduler() Part { return ofKubernetes("stock-kube-scheduler", "kube-scheduler") }

// KubeScheduler is the scheduler of this repository.
func KubeScheduler() Part { return own("kube-scheduler") }

// KubeSchedulerRace is KubeScheduler with the race detector.
func KubeSchedulerRace() Part {
	part := KubeScheduler()
	part.Name, part.Race = part.Name+"-race", true
	return part
}

// LoadWatcher is the load-watcher of this repository.
func LoadWatcher() Part { return own("load-watcher") }

// Rebalancer is the rebalancer of this repository.
func Rebalancer() Part { return own("rebalancer") }

// KubectlPlimsoll is the kubectl plugin of this repository.
func KubectlPlimsoll() Part { return own("kubectl-plimsoll") }

// KWOK simulates the kubelets.
func KWOK() Part { return of("sigs.k8s.io/kwok", "cmd/kwok", partsDir) }

// MetricsServer serves metrics.k8s.io.
func MetricsServer() Part { return of("sigs.k8s.io/metrics-server", "cmd/metrics-server", partsDir) }

// Prometheus measures the nodes. It has only the service discovery that a cluster uses, which halves the time of the build.
func Prometheus() Part {
	part := of("github.com/prometheus/prometheus", "cmd/prometheus", partsDir)
	part.Tags = []string{"remove_all_sd", "enable_http_sd"}
	return part
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

const (
	modulePath       = "github.com/plimsoll-scheduler/plimsoll"
	kubernetesModule = "k8s.io/kubernetes"
	partsDir         = "test/cluster/parts"
	toolsDir         = "hack/tools"
	minorsDir        = "hack/kubernetes"
)

func minorTag(minor string) string { return "kubernetes_" + strings.ReplaceAll(minor, ".", "_") }

// dependsOnMinor reports whether the program is of Kubernetes, or uses its libraries. Its linker then sets the version of
// Kubernetes, without which an API server reports a version that kubectl cannot parse.
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
	if p.dependsOnMinor() {
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
