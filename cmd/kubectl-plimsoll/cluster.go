package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
)

// clusterFlags are the flags of all commands that look at a cluster.
type clusterFlags struct {
	kube          *genericclioptions.ConfigFlags
	configuration cluster.ConfigurationOptions
	source        cluster.SourceOptions
}

func newClusterFlags() *clusterFlags {
	return &clusterFlags{kube: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag()}
}

// addConnectionTo adds the flags that say which cluster is read.
func (f *clusterFlags) addConnectionTo(command *cobra.Command, flags *pflag.FlagSet) {
	kube := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.kube.AddFlags(kube)
	kube.VisitAll(func(flag *pflag.Flag) {
		// All of kubectl's flags work; the help shows common ones.
		flag.Hidden = !slices.Contains([]string{"kubeconfig", "context", "namespace", "as", "as-group", "server", "request-timeout"},
			flag.Name)
	})
	markGlobal(kube)
	flags.AddFlagSet(kube)
	completeFlag(command, "context", f.completeContexts)
	completeFlag(command, "namespace", f.completeNames("namespaces"))
	completeFiles(command, "kubeconfig", "certificate-authority", "client-certificate", "client-key")
}

func (f *clusterFlags) addTo(command *cobra.Command, all *pflag.FlagSet) {
	f.addConnectionTo(command, all)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.configuration.File, "config", "",
		"KubeSchedulerConfiguration on this machine, in place of the one that runs in the cluster")
	flags.StringVar(&f.configuration.Scheduler, "scheduler", "",
		"NAMESPACE/NAME of the scheduler's Deployment, if it is not found by its labels")
	flags.StringVar(&f.configuration.From, "from", "", "configmap/NAMESPACE/NAME[/KEY] that holds the KubeSchedulerConfiguration")
	flags.StringVar(&f.source.Address, "source-address", "",
		"URL at which this machine reaches the source of load, such as that of a port-forward")
	flags.StringVar(&f.source.TokenFile, "source-token-file", "", "file with the bearer token for the source of load")
	flags.StringVar(&f.source.ApplicationKeyFile, "source-application-key-file", "", "file with the application key for Datadog")
	flags.StringVar(&f.source.CAFile, "source-ca-file", "",
		"PEM file of the authority that signed the certificate of the source of load")
	markGlobal(flags)
	all.AddFlagSet(flags)
	completeFlag(command, "scheduler", f.complete(deployments))
	completeFiles(command, "config", "source-token-file", "source-application-key-file", "source-ca-file")
}

// contextName returns the context of the kubeconfig in use; empty if there is none.
func (f *clusterFlags) contextName() string {
	config, err := f.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(*f.kube.Context, config.CurrentContext)
}

// connect returns a connection that cannot change the cluster.
func (f *clusterFlags) connect() (*cluster.Connection, error) {
	kubeConfig, err := f.kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	kubeConfig.UserAgent = "kubectl-plimsoll/" + program.Version(version)
	// The API server warns mostly about written objects, and this program writes none.
	kubeConfig.WarningHandler = rest.NoWarnings{}
	namespace, _, err := f.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	conn, err := cluster.Connect(kubeConfig, namespace, inCluster(kubeConfig, rest.InClusterConfig))
	if err != nil {
		return nil, err
	}
	conn.Chosen = f.chosen()
	return conn, nil
}

// chosen returns the flags that chose the cluster and the user.
func (f *clusterFlags) chosen() cluster.Chosen {
	return cluster.Chosen{
		Kubeconfig: *f.kube.KubeConfig, Context: *f.kube.Context, Cluster: *f.kube.ClusterName, Server: *f.kube.APIServer,
		TLSServerName: *f.kube.TLSServerName, CertificateAuthority: *f.kube.CAFile, InsecureSkipTLSVerify: *f.kube.Insecure,
		User: *f.kube.AuthInfoName, ClientCertificate: *f.kube.CertFile, ClientKey: *f.kube.KeyFile,
		As: *f.kube.Impersonate, AsUID: *f.kube.ImpersonateUID, AsGroups: *f.kube.ImpersonateGroup,
	}
}

// pin sets the flags, and more files, so that printed commands choose the same in any shell. Its directory and environment may be
// others, and the current context may change.
func (f *clusterFlags) pin(more ...*string) {
	*f.kube.Context = f.contextName()
	files := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	if len(files) == 0 {
		files = []string{clientcmd.RecommendedHomeFile}
	}
	if *f.kube.KubeConfig == "" && *f.kube.Context != "" && len(files) == 1 { // --kubeconfig takes one
		*f.kube.KubeConfig = files[0]
	}
	for _, file := range append(more,
		f.kube.KubeConfig, f.kube.CAFile, f.kube.CertFile, f.kube.KeyFile,
		&f.configuration.File, &f.source.TokenFile, &f.source.ApplicationKeyFile, &f.source.CAFile,
	) {
		if absolute, err := filepath.Abs(*file); err == nil && *file != "" {
			*file = absolute
		}
	}
}

// foundBy returns the function that a command calls with the configuration that it found.
func foundBy(cmd *cobra.Command, c *cluster.Connection) func(*cluster.Configuration) {
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
