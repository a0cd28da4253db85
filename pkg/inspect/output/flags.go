package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Flags say how results are printed.
type Flags struct {
	Format string
	// formats are those without a template.
	formats []string
}

// AddTo adds the flag. more are formats that only this command has.
func (f *Flags) AddTo(flags *pflag.FlagSet, more ...string) {
	f.formats = append([]string{Table, Wide, JSON, YAML}, more...)
	flags.StringVarP(&f.Format, "output", "o", Table, f.allowed())
}

func (f *Flags) allowed() string {
	return strings.Join(f.formats, ", ") + ", jsonpath=TEMPLATE or go-template=TEMPLATE"
}

// Validate returns an OptionError for a format that the command does not have.
func (f *Flags) Validate() error {
	if slices.Contains(f.formats, f.Format) {
		return nil
	}
	_, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.Format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("%q; write %s", f.Format, f.allowed())
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
