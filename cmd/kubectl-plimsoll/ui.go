package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
)

// uiOptions are the flags of ui.
type uiOptions struct {
	cluster *clusterFlags
	view    top.Options

	address, tokenFile string
	port               uint16
	noOpen             bool
}

func newUICommand() *cobra.Command {
	o := &uiOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "ui",
		Short: "Show nodes against their load lines in the browser",
		Long: `Serves a page of all nodes against their load lines on this machine, and opens it in the browser. The figures
are those of "kubectl plimsoll top". The page only reads, with your own permissions.

Only who has the URL with its token can read the page. Interrupt the command to end it.`,
		Example: `  # Open the page
  kubectl plimsoll ui

  # Print its URL, without a browser
  kubectl plimsoll ui --no-open --port 8080`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := command.Flags()
	o.cluster.addTo(command, flags)
	addViewTo(command, flags, o.cluster, &o.view)
	flags.StringVar(&o.address, "address", "127.0.0.1",
		"IP address of this machine at which browsers reach the page; one that is not a loopback address needs --token-file")
	flags.Uint16Var(&o.port, "port", 0, "TCP port of the page (default any free one)")
	flags.StringVar(&o.tokenFile, "token-file", "",
		"file with the token of the page's URL, of at least 32 characters (default a random one)")
	flags.BoolVar(&o.noOpen, "no-open", false, "print the URL, but open no browser")
	completeFiles(command, "token-file")
	return command
}

// minTokenBytes are more than anybody guesses.
const minTokenBytes = 32

// token returns the token of the file; empty for a random one.
func (o *uiOptions) token() (string, error) {
	ip := net.ParseIP(o.address)
	switch {
	case ip == nil || ip.IsUnspecified():
		return "", usageError{fmt.Errorf("--address: %q; write the IP address at which browsers reach this machine", o.address)}
	case o.tokenFile == "" && !ip.IsLoopback():
		return "", usageError{fmt.Errorf("--address: %s is no loopback address; write --token-file too", o.address)}
	case o.tokenFile == "":
		return "", nil
	}
	content, err := boundedfile.ReadToken(o.tokenFile)
	if err != nil {
		return "", usageError{fmt.Errorf("--token-file: %w", err)}
	}
	token := strings.TrimSpace(string(content))
	if len(token) < minTokenBytes {
		return "", usageError{fmt.Errorf("--token-file: %s has %d characters; write at least %d, such as those of: openssl rand -hex 32",
			o.tokenFile, len(token), minTokenBytes)}
	}
	return token, nil
}

func (o *uiOptions) run(cmd *cobra.Command) error {
	token, err := o.token()
	if err != nil {
		return err
	}
	connection, err := o.cluster.connect()
	if err != nil {
		return usageError{err}
	}
	session, err := top.Open(cmd.Context(), connection, o.cluster.configuration, o.cluster.source, o.view)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(int(o.port))))
	if err != nil {
		return usageError{fmt.Errorf("--address, --port: %w", err)}
	}
	server, err := ui.NewServer(cmd.Context(), listener, ui.Options{
		Source: session, Context: o.cluster.contextName(), Encode: withKind, Token: token,
		Check: func(ctx context.Context) (*doctor.Report, error) {
			return doctor.Run(ctx, connection, doctor.Options{Configuration: o.cluster.configuration, Source: o.cluster.source})
		},
	})
	if err != nil {
		_ = listener.Close()
		return err
	}
	if token == "" {
		printLines(cmd.OutOrStdout(), server.URL())
	} else {
		printLines(cmd.OutOrStdout(), server.Address()+"#token=TOKEN")
		printLines(cmd.ErrOrStderr(), "In place of TOKEN, write the token of "+o.tokenFile+".")
	}
	if !net.ParseIP(o.address).IsLoopback() {
		printLines(cmd.ErrOrStderr(), "Warning: HTTP is not encrypted; use a network that you trust.")
	}
	if !o.noOpen {
		closeBrowser := openBrowser(cmd.Context(), server.URL())
		defer closeBrowser()
	}
	printLines(cmd.ErrOrStderr(), "Press Ctrl-C to end.")
	return server.Serve(cmd.Context())
}

// openBrowser opens a URL in the browser, as far as there is one. Call the result at the end. Other users can see arguments of
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
