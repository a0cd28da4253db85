package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

type options struct {
	config, schedulerConfig, deployment, state, kubeconfig, listenAddress string
	loadPort                                                              uint16
	validateOnly                                                          bool
}

// NewCommand returns the command of the program in a version.
func NewCommand(version string, c clock.WithTicker, register func(...metrics.Registerable), handler http.Handler) *cobra.Command {
	o := &options{}
	logging := logsapi.NewLoggingConfiguration()
	command := &cobra.Command{
		Use:   cluster.RebalancerProgram,
		Short: "Moves pods off hot nodes",
		Long: `Plans which pods to move off hot nodes, by the scheduler's own code. In mode Evict it evicts them, one at a time, and waits
for each replacement. In mode Plan, the default, it shows plans and evicts nothing.

It serves /metrics, /healthz and /readyz.`,
		Args:         cobra.NoArgs,
		Version:      version,
		SilenceUsage: true, // an error has one line
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.read()
			if err != nil {
				return err
			}
			if o.validateOnly {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "configurations %s and %s are valid\n", o.config, o.schedulerConfig)
				return err
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the program at once
			if err := o.connect(ctx, s); err != nil {
				return err
			}
			s.clock, s.observer, s.metrics = c, newObserver(register), handler
			listener, err := net.Listen("tcp", o.listenAddress)
			if err != nil {
				return fmt.Errorf("--listen-address: %w", err)
			}
			return s.run(ctx, listener)
		},
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\n")
	flags := command.Flags()
	flags.StringVar(&o.config, "config", "", "file with the RebalancerConfiguration; required. It is read again when it changes.")
	flags.StringVar(&o.schedulerConfig, "scheduler-config", "", "file with the scheduler's KubeSchedulerConfiguration; required")
	flags.StringVar(&o.deployment, "scheduler", "",
		"NAMESPACE/NAME of the scheduler's Deployment, whose load is read; by default those of the scheduler's Lease")
	flags.Uint16Var(&o.loadPort, provider.PortFlag, provider.ServedPort,
		"port at which the scheduler serves its load; 0: the sources of load are read instead")
	flags.StringVar(&o.state, kube.StateFlag, kube.DefaultState,
		"NAMESPACE/NAME of the ConfigMap with the state, which must exist, and of the Lease")
	flags.StringVar(&o.listenAddress, "listen-address", ":10270", "host:port to serve on; without a host, all addresses")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; by default the pod's cluster")
	flags.BoolVar(&o.validateOnly, "validate-only", false, "validate both files and exit; needs no cluster")
	logsapi.AddFlags(logging, flags)
	return command
}

// read returns a server with both configurations.
func (o *options) read() (*server, error) {
	switch {
	case o.config == "":
		return nil, errors.New("--config: required; name the file with the RebalancerConfiguration")
	case o.schedulerConfig == "":
		return nil, errors.New("--scheduler-config: required; name the file with the scheduler's KubeSchedulerConfiguration")
	}
	s := &server{file: o.config}
	state, err := kube.ParseState(o.state)
	if err != nil {
		return nil, err
	}
	s.namespace, s.name = state.Namespace, state.Name
	if s.content, err = boundedfile.ReadConfiguration(s.file); err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if s.configuration, err = plan.DecodeConfiguration(s.content); err != nil {
		return nil, fmt.Errorf("--config: %s: %w", o.config, err)
	}
	if s.scheduler, err = o.readScheduler(); err != nil {
		return nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	election := s.scheduler.LeaderElection
	if !election.LeaderElect {
		return nil, fmt.Errorf("--scheduler-config: %s: leaderElection.leaderElect: false; write true, because the lease shows whether "+
			"the scheduler runs", o.schedulerConfig)
	}
	lease := election.ResourceNamespace + "/" + election.ResourceName
	deployment, err := text.ParseName(cmp.Or(o.deployment, lease), "the scheduler's Deployment")
	if err != nil {
		return nil, fmt.Errorf("--scheduler: %w", err)
	}
	if o.loadPort > 0 {
		s.workload = &cluster.Workload{Namespace: deployment.Namespace, Name: deployment.Name, LoadPort: o.loadPort}
	}
	return s, nil
}

func (o *options) readScheduler() (*schedulerconfig.KubeSchedulerConfiguration, error) {
	lint := plugins.LintOptions()
	lint.Getenv, lint.FilesAreElsewhere = os.Getenv, o.validateOnly
	return configlint.ReadFile(o.schedulerConfig, lint)
}

// connect connects the server, and checks that its state can be read.
func (o *options) connect(ctx context.Context, s *server) error {
	kubeConfig, err := program.ReadKubeconfig("--kubeconfig", o.kubeconfig, component)
	if err != nil {
		return err
	}
	if s.connection, err = cluster.Connect(kubeConfig, corev1.NamespaceAll, o.kubeconfig == ""); err != nil {
		return err
	}
	if s.client, err = kubernetes.NewForConfig(kubeConfig); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	s.identity = host + "_" + string(uuid.NewUUID())
	if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.name, metav1.GetOptions{}); err != nil {
		return newStateError(s.namespace, s.name, err)
	}
	return nil
}
