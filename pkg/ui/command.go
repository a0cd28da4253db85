package ui

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
)

type uiOptions struct {
	cluster *kubectl.Flags
	view    top.Options
	checks  []doctor.Supplier

	port   uint16
	noOpen bool
	// rebalancer is the file of a RebalancerConfiguration.
	rebalancer string
	moves      Moves

	// html is written in place of a server.
	html string
}

// Moves plans moves of pods for the page. Its zero value is a program without a rebalancer.
type Moves struct {
	// AddFile adds the flag of the file with the rebalancer's configuration, and Check reads the file.
	AddFile func(flags *pflag.FlagSet, file *string)
	Check   func(file string) error
	// Origins reads which pods were moved.
	Origins cluster.ReadOrigins
	// Plan returns the JSON of a plan, and the command that makes its moves.
	Plan func(
		ctx context.Context, c *cluster.Connection, of cluster.ConfigurationOptions, source cluster.SourceOptions, file string,
	) ([]byte, cluster.Command, error)
}

// Command returns the command ui. The page shows these checks beside those of doctor.
func Command(moves Moves, checks ...doctor.Supplier) *cobra.Command {
	o := &uiOptions{cluster: kubectl.NewFlags(), view: top.Options{Origins: moves.Origins}, moves: moves, checks: checks}
	command := &cobra.Command{
		Use:   "ui",
		Short: "Show nodes against their load lines in the browser",
		Long: `Serves a page of all nodes against their load lines on this machine, and opens it in the browser. The figures
are those of "kubectl plimsoll top". The page only reads, with your own permissions.

Only who has the URL with its token can read the page. Interrupt the command to end it.`,
		Example: `  # Open the page
  kubectl plimsoll ui

  # Print its URL, without a browser
  kubectl plimsoll ui --no-open --port 8080

  # Save the page of a snapshot, such as for a ticket
  kubectl plimsoll ui --html nodes.html`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := command.Flags()
	o.cluster.AddTo(flags)
	top.AddViewTo(flags, &o.view)
	flags.Uint16Var(&o.port, "port", 0, "TCP port of the page (default any free one)")
	if moves.Plan != nil {
		moves.AddFile(flags, &o.rebalancer)
	}
	flags.BoolVar(&o.noOpen, "no-open", false, "print the URL, but open no browser")
	flags.StringVar(&o.html, "html", "", "write the page of a snapshot, which needs no server, to a file, and end")
	return command
}

// uiGCPercent collects garbage early, because the page stays open, and holds all nodes and pods. Otherwise garbage from listing
// objects would fragment the heap.
const uiGCPercent = 20

func (o *uiOptions) run(cmd *cobra.Command) error {
	for _, flag := range []string{"port", "no-open", "rebalancer-config"} {
		if o.html != "" && cmd.Flags().Changed(flag) {
			return cluster.OptionErrorf("--%s: no effect with --html, which serves no page; leave out one of them", flag)
		}
	}
	if os.Getenv("GOGC") == "" { // else the user has chosen
		debug.SetGCPercent(uiGCPercent)
	}
	options := Options{}
	if err := o.openCluster(cmd, &options); err != nil {
		return err
	}
	if o.html == "" {
		return o.serve(cmd, options)
	}
	snapshot, err := Take(cmd.Context(), options)
	if err != nil {
		return err
	}
	return snapshot.WriteHTMLFile(o.html)
}

// openCluster sets the options that need a connection.
func (o *uiOptions) openCluster(cmd *cobra.Command, options *Options) error {
	ctx := cmd.Context()
	if o.moves.Plan != nil {
		if err := o.moves.Check(o.rebalancer); err != nil { // each plan reads the file anew
			return err
		}
	}
	*o.cluster.Kube.Context = o.cluster.Context() // users copy the page's commands, and the current context may change
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	options.Context, options.Chosen = o.cluster.Context(), connection.Chosen
	options.Flags = slices.Concat(o.cluster.Configuration.Flags(), o.cluster.Source.Flags())
	session, err := top.Open(ctx, connection, o.cluster.Configuration, o.cluster.Source, o.view)
	if err != nil {
		return err
	}
	options.Source = session
	connection = connection.Holding(session.Held)
	options.Check = func(ctx context.Context, lend cluster.Lender) (*doctor.Report, error) {
		defer debug.FreeOSMemory() // lists, and perhaps another simulation
		return doctor.Run(ctx, connection, doctor.Options{
			Configuration: o.cluster.Configuration, Source: o.cluster.Source, Lend: lend, Suppliers: o.checks,
		})
	}
	options.Questions = o.questions(connection)
	return nil
}

// questions answers the page's questions as the commands explain, what-if and rebalance do.
func (o *uiOptions) questions(connection *cluster.Connection) Questions {
	found := func(*cluster.Configuration) {}
	questions := Questions{
		Explain: func(ctx context.Context, namespace string, r explain.Request) (explain.Result, error) {
			r.Configuration, r.Source, r.Found, r.Origins = o.cluster.Configuration, o.cluster.Source, found, o.moves.Origins
			return explain.Run(ctx, connection.In(namespace), r)
		},
		WhatIf: func(ctx context.Context, w WhatIf) (*whatif.Report, error) {
			r := whatif.Request{Configuration: o.cluster.Configuration, Source: o.cluster.Source, Scenario: w.Scenario, Found: found}
			if w.Workload.Name != "" {
				workload, err := w.Workload.JSON(ctx, connection, w.Namespace)
				if err != nil {
					return nil, err
				}
				r.File, r.Stdin = "-", bytes.NewReader(workload)
			}
			return whatif.Run(ctx, connection, r)
		},
	}
	if o.moves.Plan != nil {
		questions.Moves = func(ctx context.Context) ([]byte, cluster.Command, error) {
			return o.moves.Plan(ctx, connection, o.cluster.Configuration, o.cluster.Source, o.rebalancer)
		}
	}
	return questions
}

// serve serves the page until the command is interrupted.
func (o *uiOptions) serve(cmd *cobra.Command, options Options) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(int(o.port))))
	if err != nil {
		return cluster.OptionErrorf("--port: %w", err)
	}
	server, err := NewServer(cmd.Context(), listener, options)
	if err != nil {
		_ = listener.Close() // nobody has connected
		return err
	}
	debug.FreeOSMemory() // lists and their pages
	output.Lines(cmd.OutOrStdout(), server.URL())
	if !o.noOpen {
		end := openBrowser(cmd.Context(), server.URL())
		defer end()
	}
	output.Lines(cmd.ErrOrStderr(), "Press Ctrl-C to end.")
	return server.Serve(cmd.Context())
}

// openBrowser opens a URL in the browser if there is one. Call the returned function at the end. Other users can see arguments of
// processes, but not the file that leads the browser to the URL.
func openBrowser(ctx context.Context, url string) (end func()) {
	dir, err := os.MkdirTemp("", "kubectl-plimsoll-")
	if err != nil {
		return func() {}
	}
	end = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	if os.WriteFile(file, []byte(`<!doctype html><meta http-equiv="refresh" content="0;url=`+url+`">`), 0o600) != nil {
		return end
	}
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	browser := exec.CommandContext(ctx, name, args...)
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }() // ends with ctx
	}
	return end
}
