// Package kubectl has the flags of kubectl-plimsoll's commands that look at a cluster, and their connection to it.
package kubectl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
)

// Flags are the flags of all commands that look at a cluster.
type Flags struct {
	Kube          *genericclioptions.ConfigFlags
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
}

// NewFlags returns flags without values.
func NewFlags() *Flags {
	return &Flags{Kube: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag()}
}

// AddConnectionTo adds the flags that say which cluster is read.
func (f *Flags) AddConnectionTo(flags *pflag.FlagSet) {
	kube := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Kube.AddFlags(kube)
	kube.VisitAll(func(flag *pflag.Flag) {
		// All of kubectl's flags work; the help shows common ones.
		flag.Hidden = !slices.Contains([]string{"kubeconfig", "context", "namespace", "as", "as-group", "server", "request-timeout"},
			flag.Name)
	})
	flags.AddFlagSet(kube)
}

// AddTo adds all flags.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	f.AddConnectionTo(flags)
	flags.StringVar(&f.Configuration.File, "config", "",
		"KubeSchedulerConfiguration on this machine, in place of the one that runs in the cluster")
	flags.StringVar(&f.Configuration.Scheduler, "scheduler", "",
		"NAMESPACE/NAME of the scheduler's Deployment, if it is not found by its labels")
	flags.StringVar(&f.Configuration.Prometheus, "prometheus", "",
		"URL of the Prometheus that load is read from where Plimsoll is not installed, in place of metrics-server")
	flags.StringVar(&f.Source.Address, "source-address", "",
		"URL at which this machine reaches the source of load, such as that of a port-forward")
	flags.StringVar(&f.Source.TokenFile, "source-token-file", "", "file with the bearer token for the source of load")
	flags.StringVar(&f.Source.ApplicationKeyFile, "source-application-key-file", "", "file with the application key for Datadog")
	flags.StringVar(&f.Source.CAFile, "source-ca-file", "",
		"PEM file of the authority that signed the certificate of the source of load")
	flags.StringVar(&f.Source.HTTPConfigFile, "source-http-config-file", "",
		"file of Prometheus' HTTP client configuration for the source of load, in place of the two files above")
}

// Context returns the context of the kubeconfig in use; empty if there is none.
func (f *Flags) Context() string {
	config, err := f.Kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(*f.Kube.Context, config.CurrentContext)
}

// Connect returns a connection that cannot change the cluster.
func (f *Flags) Connect(command *cobra.Command) (*cluster.Connection, error) {
	kubeConfig, err := f.Kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	kubeConfig.UserAgent = "kubectl-plimsoll/" + command.Root().Version
	// The API server warns mostly about written objects, and this program writes none.
	kubeConfig.WarningHandler = rest.NoWarnings{}
	namespace, _, err := f.Kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	conn, err := cluster.Connect(kubeConfig, namespace, inCluster(kubeConfig, rest.InClusterConfig))
	if err != nil {
		return nil, err
	}
	conn.Chosen = f.chosen()
	if name := *f.Kube.Namespace; name != "" {
		_, err := conn.Client.CoreV1().Namespaces().Get(command.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // other requests report all other errors
			return nil, cluster.OptionErrorf("--namespace: there is no namespace %s; kubectl get namespaces lists them", name)
		}
	}
	return conn, nil
}

// chosen returns the flags that chose the cluster and the user, as they are by now.
func (f *Flags) chosen() cluster.Chosen {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Kube.AddFlags(flags)
	return cluster.ChosenBy(flags)
}

// FoundBy returns the function that a command calls with the configuration that it found.
func FoundBy(cmd *cobra.Command, c *cluster.Connection) func(*cluster.Configuration) {
	return func(found *cluster.Configuration) {
		warnOfOtherMinor(cmd, c.Chosen, componentversion.Get().GitVersion, found.Workload)
	}
}

// warnOfOtherMinor prints a warning if the scheduler's image names another minor version of Kubernetes. Its stock
// plugins may differ.
func warnOfOtherMinor(cmd *cobra.Command, chosen cluster.Chosen, kubernetes string, w *cluster.Workload) {
	if w == nil {
		return
	}
	if other := skew.OtherCommand(skew.Minor(kubernetes), skew.MinorOfImage(w.Image)); other != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s; use the one in the scheduler's pod: %s\n", other,
			w.ExecCommand("kubectl-plimsoll", cmd.Name(), "...").For(chosen))
	}
}

// inCluster reports whether the program runs in a pod and reaches the pod's own cluster with its service account. The environment
// alone does not tell: in a pod too, a kubeconfig may name another cluster.
func inCluster(kubeConfig *rest.Config, ofPod func() (*rest.Config, error)) bool {
	own, err := ofPod()
	return err == nil && kubeConfig.Host == own.Host && kubeConfig.BearerTokenFile == own.BearerTokenFile
}

// NoArgs is cobra.NoArgs, with an OptionError.
func NoArgs(command *cobra.Command, args []string) error {
	if err := cobra.NoArgs(command, args); err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	return nil
}
