package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

type explainOptions struct {
	cluster *clusterFlags
	output  outputFlags
	file    string
	top     int
	nodes   []string
	// schedulerName replaces the pod's.
	schedulerName string
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "explain (POD | -f FILE)",
		Short: "Show where the scheduler would place a pod now, and why",
		Long: `Shows where the scheduler would place a pod now, and why: its expected usage, the nodes that filters ruled
out, the scores of the others, and the plugin that decided. The scheduler's own code decides, with its
configuration and the cluster's present objects and load. Nothing is written to the cluster.

A placed pod is explained as if it had no node yet: the node counts neither its requests nor its pending usage.
The measured load still includes it.

A file holds one Pod, or one Deployment, ReplicaSet, StatefulSet, Job or CronJob, whose next pod is explained. The
pod gets the API server's defaults, priority, LimitRange defaults and overhead. For other admission plugins and
webhooks, let the API server admit it first:
  kubectl create --dry-run=server -o yaml -f pod.yaml | kubectl plimsoll explain -f -

Load, pods and nodes change, and the scheduler takes one of the nodes with the highest total at random.

Exit codes: 0 some node takes the pod, 1 none does without preemption, 2 unknown.`,
		Example: `  # Why is this pod pending, or on its node?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop

  # Where would a pod of this manifest go?
  kubectl plimsoll explain -f deployment.yaml

  # Where would this profile place a pod that another scheduler has placed, and why not there?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop --scheduler-name plimsoll

  # Why one node and not the other?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q --node worker-1 --node worker-2

  # All candidates, for a script
  kubectl plimsoll explain -f pod.yaml --top 0 -o json | jq -r '.candidates[].name'`,
		ValidArgsFunction: o.cluster.completeNames("pods"),
		RunE:              o.run,
	}
	flags := command.Flags()
	o.cluster.addTo(command, flags)
	o.output.addTo(command, flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with a pod, or a workload that creates it; - is standard input")
	flags.StringVar(&o.schedulerName, "scheduler-name", "", "profile to explain with; replaces the pod's spec.schedulerName")
	flags.IntVar(&o.top, "top", 5, "number of candidates to show, best first; 0 shows all")
	flags.StringSliceVar(&o.nodes, "node", nil, "node to compare; write it twice, for two nodes")
	completeFlag(command, "node", o.cluster.completeNames("nodes"))
	return command
}

func (o *explainOptions) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%s: write the name of one pod", strings.Join(args, " "))
	case len(args) == 0 && o.file == "":
		return errors.New("no pod: write the name of a pod of the cluster, or -f FILE")
	case len(args) == 1 && o.file != "":
		return fmt.Errorf("--filename: the pod %s is named too; leave out one", args[0])
	case o.top < 0:
		return fmt.Errorf("--top: %d; write 0 for all candidates, or more", o.top)
	case cmd.Flags().Changed("node") && (len(o.nodes) != 2 || o.nodes[0] == o.nodes[1]):
		return fmt.Errorf("--node: %s; name two different nodes", strings.Join(o.nodes, ", "))
	}
	return o.output.validate()
}

func (o *explainOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.validate(cmd, args); err != nil {
		return usageError{err}
	}
	connection, err := o.cluster.connect()
	if err != nil {
		return err
	}
	r := explain.Request{
		Configuration: o.cluster.configuration, Source: o.cluster.source,
		File: o.file, Stdin: cmd.InOrStdin(), Namespace: *o.cluster.kube.Namespace,
		Top: o.top, Compare: o.nodes, SchedulerName: o.schedulerName,
		Found: func(c *live.Configuration) { warnOfOtherMinor(cmd, componentversion.Get().GitVersion, c.Workload) },
	}
	if len(args) > 0 {
		r.Pod = args[0]
	}
	result, err := explain.Run(cmd.Context(), connection, r)
	if err != nil {
		return err
	}
	if err := o.output.print(cmd, result, "", nil, result.Print); err != nil || len(result.Decision.Nodes) > 0 {
		return err
	}
	return errFound
}
