package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// The programs, by file name, and the command of kubectl-plimsoll that decides and places no pods.
const (
	schedulerProgram  = "kube-scheduler"
	RebalancerProgram = "rebalancer"
	ShadowCommand     = "shadow"
)

// Workload is a scheduler that runs in the cluster.
type Workload struct {
	// Kind is Deployment, or Pod for a static pod.
	Kind, Namespace, Name string
	// Container is the name of the scheduler's container, Image its image, and Args its command line.
	Container, Image string
	Args             []string
	Env              map[string]string
	// LoadPort is the port at which it serves its load, where it is known otherwise than by Args; or else 0.
	LoadPort uint16
	// Release is the name of the chart's release; empty if Helm did not install it. ChartVersion, such as 0.2.0, may be empty too.
	Release, ChartVersion string
	// ServiceAccount is the name of its account; empty for a static pod.
	ServiceAccount string
	// Pods are the names of its pods that have not ended. Replicas is their configured number; nil if unknown.
	Pods     []string
	Replicas *int32

	// deployment is nil if Kind is not Deployment, or if it was not read.
	deployment *appsv1.Deployment
}

// workloadOf returns the scheduler that the pods of an object run; nil if they run none.
func workloadOf(kind string, object metav1.ObjectMeta, spec corev1.PodSpec) *Workload {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool {
		return len(c.Command) > 0 && path.Base(c.Command[0]) == schedulerProgram
	})
	if i < 0 { // the image's entry point, or a script
		i = slices.IndexFunc(spec.Containers, func(c corev1.Container) bool {
			return slices.ContainsFunc(slices.Concat(c.Command, c.Args),
				func(arg string) bool { return strings.HasPrefix(arg, "--config=") || arg == "--config" })
		})
	}
	if i < 0 {
		return nil
	}
	container := &spec.Containers[i]
	args := slices.Concat(container.Command, container.Args)
	if len(container.Command) == 0 {
		args = append([]string{schedulerProgram}, args...)
	}
	if slices.Contains(args, ShadowCommand) || path.Base(args[0]) == RebalancerProgram {
		return nil
	}
	w := &Workload{
		Kind: kind, Namespace: object.Namespace, Name: object.Name, Release: object.Annotations[releaseAnnotation],
		Container: container.Name, Image: container.Image, Args: args, Env: map[string]string{},
		ServiceAccount: cmp.Or(spec.ServiceAccountName, "default"),
	}
	if version, ok := strings.CutPrefix(object.Labels[chartLabel], chartPrefix); ok {
		w.ChartVersion = version
	}
	for _, variable := range container.Env {
		w.Env[variable.Name] = variable.Value
	}
	if _, mirror := object.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		w.ServiceAccount = ""
	}
	return w
}

func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// Failure says why pods of the Deployment could not be created, such as an API server's refusal; empty if they could.
func (w *Workload) Failure() string {
	if w.deployment != nil {
		for _, c := range w.deployment.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	return ""
}

// User returns the user name of the workload's account.
func (w *Workload) User() string {
	if w.ServiceAccount == "" {
		return "system:kube-scheduler" // of a static pod
	}
	return serviceaccount.MakeUsername(w.Namespace, w.ServiceAccount)
}

// Flags returns kube-scheduler's flags as the command line sets them.
func (w *Workload) Flags() *pflag.FlagSet {
	flags, _ := w.options()
	return flags
}

// GroupsGate is the feature gate with which a scheduler places the pods of a group together.
const GroupsGate = "GenericWorkload"

// PlacesGroups reports whether the scheduler has the gate. An unknown scheduler counts as one with it.
func (w *Workload) PlacesGroups() bool { return w == nil || configlint.Enables(w.Flags(), GroupsGate) }

// LeaderElection returns the settings of leader election. Flags override the configuration.
func (w *Workload) LeaderElection(cfg *schedulerconfig.KubeSchedulerConfiguration) componentbaseconfig.LeaderElectionConfiguration {
	_, all := w.options()
	cfg = cfg.DeepCopy()
	all.ApplyLeaderElectionTo(cfg)
	return cfg.LeaderElection
}

func (w *Workload) options() (*pflag.FlagSet, *options.Options) {
	flags, all := pflag.NewFlagSet(schedulerProgram, pflag.ContinueOnError), options.NewOptions()
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	flags.Int(provider.PortFlag, provider.ServedPort, "")
	for _, set := range all.Flags.FlagSets {
		flags.AddFlagSet(set)
	}
	if len(w.Args) > 0 {
		_ = flags.Parse(w.Args[1:]) // the running scheduler has parsed them
	}
	return flags, all
}

func (w *Workload) configFile() string {
	file, _ := w.Flags().GetString("config") // every scheduler has the flag
	return file
}

// ExecCommand returns the command that runs another one in the scheduler's pod.
func (w *Workload) ExecCommand(command ...string) Command {
	args := []string{"-n", w.Namespace, "exec", w.Name}
	if w.Kind == "Deployment" {
		args[3] = "deploy/" + w.Name
	}
	if w.Container != "" {
		args = append(args, "-c", w.Container)
	}
	return Kubectl(slices.Concat(args, []string{"--"}, command)...)
}

// RestartCommand returns the command that restarts the workload; empty if there is none.
func (w *Workload) RestartCommand() Command {
	if w == nil || w.Kind != "Deployment" {
		return ""
	}
	return Kubectl("-n", w.Namespace, "rollout", "restart", "deployment", w.Name)
}

// DoctorCommand returns the command that runs doctor in the scheduler's pod; nil is the chart's default.
func (w *Workload) DoctorCommand() Command {
	if w == nil {
		w = &Workload{Kind: "Deployment", Namespace: "plimsoll-system", Name: "plimsoll"}
	}
	return w.ExecCommand("kubectl-plimsoll", "doctor")
}

// HelmCommand returns the command that sets values of the workload's release, such as a=b; empty if there is none.
func (w *Workload) HelmCommand(values ...string) Command {
	if w == nil || w.Release == "" {
		return ""
	}
	args := []string{"upgrade", w.Release, "oci://ghcr.io/plimsoll-scheduler/charts/plimsoll"}
	if w.ChartVersion != "" {
		args = append(args, "--version", w.ChartVersion)
	}
	args = append(args, "--namespace", w.Namespace, "--reset-then-reuse-values")
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return Helm(args...)
}

// DescribeCommand returns the command that shows an object and its events.
func DescribeCommand(namespace, kind, name string) Command {
	return Kubectl("-n", namespace, "describe", strings.ToLower(kind), name)
}

const maxMetricsBytes = 16 << 20

// Metrics reads the metrics of one of the scheduler's pods, and returns its name. With inPod, it reads the port of the command's
// own pod, and else the API server's proxy. It prefers the leader, because only the leader places pods. Without pods, it returns
// neither metrics nor an error.
func (c *Connection) Metrics(
	ctx context.Context, w *Workload, inPod bool, leader string,
) (metrics model.Vector, pod string, err error) {
	if inPod {
		own := rest.CopyConfig(c.KubeConfig)
		// The certificate is self-signed, and the connection does not leave the pod.
		own.Host, own.TLSClientConfig = "https://localhost:"+metricsPort(w), rest.TLSClientConfig{Insecure: true}
		client, _, err := newClient(own)
		if err != nil {
			return nil, "", err
		}
		metrics, err = readMetrics(ctx, client.CoreV1().RESTClient().Get().AbsPath("/metrics"))
		return metrics, podName(), err
	}
	pods := slices.Clone(w.Pods)
	if i := slices.Index(pods, leader); i > 0 {
		pods[0], pods[i] = pods[i], pods[0]
	}
	for _, pod := range pods {
		if metrics, err = readMetrics(ctx, c.podProxy(w.Namespace, pod, metricsPort(w), "metrics")); err == nil {
			return metrics, pod, nil
		}
	}
	return nil, "", err
}

func metricsPort(w *Workload) string {
	port, _ := w.Flags().GetInt("secure-port") // every scheduler has the flag
	return strconv.Itoa(port)
}

func readMetrics(ctx context.Context, request *rest.Request) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	return ParseMetrics(source.BoundBody(body, maxMetricsBytes))
}

// ParseMetrics returns the samples of a text in Prometheus' format.
func ParseMetrics(text io.Reader) (model.Vector, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	return expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Now()}, slices.Collect(maps.Values(families))...)
}
