package command

import (
	"context"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// PlanJSON returns the JSON of the command's report, and the command.
func PlanJSON(
	ctx context.Context, c *cluster.Connection, of cluster.ConfigurationOptions, source cluster.SourceOptions, file string,
) ([]byte, cluster.Command, error) {
	report, err := Run(ctx, c, Request{
		Configuration: of, Source: source, Rebalancer: file, Found: func(*cluster.Configuration) {},
	})
	if err != nil {
		return nil, "", err
	}
	var args []string
	if file != "" {
		args = []string{"--rebalancer-config", file}
	}
	content, err := output.Marshal(report)
	return content, cluster.Plugin("rebalance", args...), err
}
