package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/history"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// historyOptions are the flags that say where a cluster's history is read.
type historyOptions struct {
	address   string
	since     time.Duration
	tokenFile string
	caFile    string
}

func (o *historyOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "prometheus", "", "http(s) URL of a Prometheus with the series of cAdvisor and kube-state-metrics, whose cluster is replayed")
	flags.DurationVar(&o.since, "since", 24*time.Hour, fmt.Sprintf("with --prometheus, how long ago the history begins, from %v to %v", history.MinSince, history.MaxSince))
	flags.StringVar(&o.tokenFile, "prometheus-token-file", "", "file with a bearer token for Prometheus")
	flags.StringVar(&o.caFile, "prometheus-ca-file", "", "PEM file of the authorities that may sign the certificate of Prometheus; the system's by default")
}

// validate checks the flags, if a history is to be read.
func (o *historyOptions) validate() error {
	if o.address == "" {
		return nil
	}
	if err := history.ValidateAddress(o.address); err != nil {
		return fmt.Errorf("--prometheus: %w", err)
	}
	if o.since < history.MinSince || o.since > history.MaxSince {
		return fmt.Errorf("--since: %v; write from %v to %v", o.since, history.MinSince, history.MaxSince)
	}
	return nil
}

// read reads the history, and writes what is missing.
func (o *historyOptions) read(ctx context.Context, missing io.Writer) (*replay.Input, error) {
	const timeout = 2 * time.Minute // of one query
	h, err := history.Read(ctx, history.Config{
		Address: o.address, Since: o.since, End: time.Now(),
		HTTP: httpclient.Config{BearerTokenFile: o.tokenFile, CAFile: o.caFile, Timeout: timeout},
	})
	if err != nil {
		return nil, err
	}
	for _, m := range h.Missing {
		fmt.Fprintln(missing, "Missing:", m)
	}
	return h.Input, nil
}
