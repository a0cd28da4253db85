package output

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Flags say how results are printed.
type Flags struct{ Format string }

const formats = "table, wide, json, yaml, jsonpath=TEMPLATE or go-template=TEMPLATE"

// AddTo adds the flag.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVarP(&f.Format, "output", "o", Table, formats)
}

// Validate returns an OptionError for an unknown format.
func (f *Flags) Validate() error {
	if f.IsTable() || f.Format == JSON || f.Format == YAML {
		return nil
	}
	_, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.Format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("%q; write %s", f.Format, formats)
	}
	if err != nil {
		return cluster.OptionErrorf("--output: %w", err)
	}
	return nil
}

// IsTable reports whether people read the result.
func (f *Flags) IsTable() bool { return f.Format == Table || f.Format == Wide }

// Print prints the result in the format, or as a table.
func (f *Flags) Print(cmd *cobra.Command, result Result, table func(*terminal.Printer)) error {
	if !f.IsTable() {
		return Write(cmd.OutOrStdout(), f.Format, result)
	}
	p := &terminal.Printer{Style: terminal.StyleOf(cmd.OutOrStdout())}
	if f.Format == Wide {
		p.Width = 0
	}
	table(p)
	_, err := io.WriteString(cmd.OutOrStdout(), p.String())
	return err
}

// Lines writes texts without control characters, one a line.
func Lines(w io.Writer, texts ...string) {
	p := &terminal.Printer{Style: terminal.StyleOf(w)}
	for _, text := range texts {
		p.Printf("%s\n", text)
	}
	_, _ = io.WriteString(w, p.String()) // nothing is left to tell it to
}
