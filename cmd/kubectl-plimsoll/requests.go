package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/requests"
)

// requestsOptions are the flags of requests.
type requestsOptions struct {
	cluster           *clusterFlags
	output            outputFlags
	request           requests.Request
	allNamespaces     bool
	minCPU, minMemory string
}

func newRequestsCommand() *cobra.Command {
	rule := requests.DefaultRule()
	o := &requestsOptions{cluster: newClusterFlags(), request: requests.Request{Rule: rule, Clock: clock.RealClock{}}}
	command := &cobra.Command{
		Use:   "requests [NAMESPACE]",
		Short: "Show what workloads request and use, and recommend requests",
		Long: `Reads from Prometheus what the containers of Deployments, StatefulSets, DaemonSets and CronJobs used in the last
24 hours. It recommends requests and limits by a rule, and says how much of the cluster this frees. Nothing is changed.

The Prometheus is that of the scheduler's configuration, or of --source-address. It needs the kubelet's cAdvisor
series container_cpu_usage_seconds_total and container_memory_working_set_bytes.

The rule: 95 % of the pods stay at or below the cpu request for at least 95 % of the time. No cpu limit is added.
An existing limit stays, or is raised to the request. The memory request and limit are the highest usage plus 15 %.`,
		Example: `  # What do the workloads of a namespace request, use and need?
  kubectl plimsoll requests shop

  # The whole cluster over a week, as a table for a spreadsheet
  kubectl plimsoll requests -A --history 168h -o csv > requests.csv

  # Write the shell commands that apply the recommendations
  kubectl plimsoll requests shop -o commands > requests.sh`,
		ValidArgsFunction: o.cluster.completeNames("namespaces"),
		RunE:              o.run,
	}
	flags := command.Flags()
	o.cluster.addTo(command, flags)
	o.output.addTo(command, flags, output.Names, csvFormat, commandsFormat)
	flags.Lookup("output").Usage += "; name is for one namespace, yaml is strategic merge patches, and commands apply these"
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "all namespaces")
	flags.StringVarP(&o.request.Selector, "selector", "l", "", "label selector of the workloads, such as app=web")
	flags.DurationVar(&o.request.History, "history", 24*time.Hour,
		fmt.Sprintf("how far back usages are read, from %v to %v", requests.MinHistory, requests.MaxHistory))
	flags.DurationVar(&o.request.Rule.MinHistory.Duration, "min-history", rule.MinHistory.Duration,
		"least time that was measured; containers with less get no recommendation")
	flags.Float64Var(&o.request.Rule.CPUPercentile, "cpu-percentile", rule.CPUPercentile,
		"percentile over the time, then over the pods, for the cpu request")
	flags.Float64Var(&o.request.Rule.MemoryMarginPercent, "memory-margin", rule.MemoryMarginPercent,
		"percentage to add to the highest memory usage")
	flags.StringVar(&o.minCPU, "min-cpu", rule.MinCPU.String(), "least cpu request")
	flags.StringVar(&o.minMemory, "min-memory", rule.MinMemory.String(), "least memory request")
	return command
}

// complete fills in the request from arguments and flags, and validates it.
func (o *requestsOptions) complete(args []string, connection *cluster.Connection) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%d namespaces: write one, or --all-namespaces", len(args))
	case len(args) == 1 && o.allNamespaces:
		return fmt.Errorf("--all-namespaces: leave it out, or the namespace %s", args[0])
	case len(args) == 1:
		o.request.Namespace = args[0]
	case !o.allNamespaces:
		o.request.Namespace = connection.Namespace
	}
	err := o.output.validate()
	if err == nil && o.allNamespaces {
		err = o.output.refuseNames("workloads", "{.kind}/{.name}")
	}
	if err != nil {
		return err
	}
	if o.request.Rule.MinCPU, err = resource.ParseQuantity(o.minCPU); err != nil || o.request.Rule.MinCPU.Sign() < 0 {
		return fmt.Errorf("--min-cpu: %q; write a quantity of 0 or more, such as 10m", o.minCPU)
	}
	if o.request.Rule.MinMemory, err = resource.ParseQuantity(o.minMemory); err != nil || o.request.Rule.MinMemory.Sign() < 0 {
		return fmt.Errorf("--min-memory: %q; write a quantity of 0 or more, such as 32Mi", o.minMemory)
	}
	return o.request.Validate()
}

func (o *requestsOptions) run(cmd *cobra.Command, args []string) error {
	connection, err := o.cluster.connect()
	if err != nil {
		return err
	}
	if err := o.complete(args, connection); err != nil {
		return usageError{err}
	}
	o.request.Configuration, o.request.Source = o.cluster.configuration, o.cluster.source
	bar := terminal.NewProgress(cmd.ErrOrStderr())
	o.request.Progress = bar.Set
	report, err := requests.Run(cmd.Context(), connection, o.request)
	bar.Clear()
	if err != nil {
		return err
	}
	switch o.output.format {
	case csvFormat:
		return report.WriteCSV(cmd.OutOrStdout())
	case output.YAML:
		return report.WritePatches(cmd.OutOrStdout())
	case commandsFormat:
		return report.WriteCommands(cmd.OutOrStdout(), connection.Chosen)
	}
	return o.output.print(cmd, report, "", nil, report.Print)
}
