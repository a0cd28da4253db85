package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

type explainOptions struct {
	cluster *kubectl.Flags
	output  output.Flags
	request Request
	// last shows the scheduler's record of the decision.
	last bool
}

// Command returns the command explain. Origins says which pods replace moved ones.
func Command(origins cluster.ReadOrigins) *cobra.Command {
	o := &explainOptions{cluster: kubectl.NewFlags(), request: Request{Origins: origins}}
	command := &cobra.Command{
		Use:   "explain (POD | TYPE/NAME | TYPE NAME | -f FILE)",
		Short: "Show where the scheduler would place a pod now, and why",
		Long: `Shows where the scheduler would place a pod now, and why. It shows the expected usage, the nodes that filters
ruled out, and the scores of the others. It names the plugin that decided. The scheduler's own code decides, with
its configuration and the cluster's present objects and load. Nothing is written to the cluster.

A placed pod is explained as if it had no node yet: its requests and usage are taken off its node. Prometheus or
metrics-server measures that usage; without them, it is estimated. Quantiles (P95 or Max) still include the usage.

TYPE is pod, deployment, replicaset, replicationcontroller, statefulset, job or cronjob, or kubectl's short name.
Of a workload, the next pod is explained.

A file holds one Pod, or one workload whose next pod is explained. The pod gets the API server's defaults, priority
and LimitRange defaults. For RuntimeClasses, other admission plugins and webhooks, let the API server admit it first:
  kubectl create --dry-run=server -o yaml -f pod.yaml | kubectl plimsoll explain -f -

The waiting pods of a pod group are also placed together, to see whether its minimum fits.

Load, pods and nodes change, and the scheduler takes one of the nodes with the highest total at random.

Exit codes: 0 the pod fits some node, 1 it fits none without preemption, 2 unknown.`,
		Example: `  # Why is this pod pending, or on its node?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop

  # Why was this pod placed there, by the scheduler's own record?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop --last

  # Where would the next pod of a Deployment go?
  kubectl plimsoll explain deployment/web -n shop

  # Where would a pod of this manifest go?
  kubectl plimsoll explain -f deployment.yaml

  # Where would this profile place a pod that another scheduler has placed, and why not there?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop --scheduler-name plimsoll

  # All candidates, for a script
  kubectl plimsoll explain -f pod.yaml --top 0 -o json | jq -r '.candidates[].name'`,
		RunE: o.run,
	}
	flags := command.Flags()
	o.cluster.AddTo(flags)
	o.output.AddTo(flags)
	flags.StringVarP(&o.request.File, "filename", "f", "", "file with a pod, or a workload that creates it; - is standard input")
	flags.StringVar(&o.request.SchedulerName, "scheduler-name", "", "profile to explain with; replaces the pod's spec.schedulerName")
	flags.BoolVar(&o.last, "last", false,
		"show what the scheduler saw when it placed the pod, if the plugin that records decisions was enabled")
	flags.IntVar(&o.request.Top, "top", 5, "number of candidates to show, best first; 0 shows all")
	return command
}

func (o *explainOptions) validate(cmd *cobra.Command, args []string) error {
	r := &o.request
	switch {
	case len(args) == 0 && r.File == "":
		return errors.New("no pod: write the name of a pod of the cluster, TYPE/NAME, or -f FILE")
	case len(args) > 0 && r.File != "":
		return fmt.Errorf("--filename: %s is named too; leave out one", strings.Join(args, " "))
	case o.last && (len(args) == 0 || r.SchedulerName != "" || cmd.Flags().Changed("top")):
		return errors.New("--last: write the name of a pod, and no other flag of explain")
	case r.Top < 0:
		return fmt.Errorf("--top: %d; write 0 for all candidates, or more", r.Top)
	}
	return o.output.Validate()
}

func (o *explainOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.validate(cmd, args); err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	r := &o.request
	if len(args) > 0 {
		var err error
		if r.Target, err = ParseTarget(args); err != nil {
			return cluster.OptionErrorf("%w", err)
		}
	}
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return err
	}
	r.Configuration, r.Source, r.Namespace = o.cluster.Configuration, o.cluster.Source, *o.cluster.Kube.Namespace
	r.Stdin, r.Found = cmd.InOrStdin(), kubectl.FoundBy(cmd, connection)
	var result Result
	if o.last {
		result, err = Last(cmd.Context(), connection, r.Target, clock.RealClock{})
	} else {
		result, err = Run(cmd.Context(), connection, *r)
	}
	if err != nil {
		return err
	}
	if err := o.output.Print(cmd, result, result.Print); err != nil || result.Fits() {
		return err
	}
	return output.ErrProblems
}

func (*Explanation) JSONKind() string { return "Explanation" }

func (*LastDecision) JSONKind() string { return "LastDecision" }
