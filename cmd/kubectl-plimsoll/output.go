package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// outputFlags say how results are printed.
type outputFlags struct {
	format string
	// formats are those without a template.
	formats []string
}

// Formats of --output beside JSON, YAML and templates. All commands have tableFormat and wideFormat; the others belong to some
// commands.
const (
	tableFormat = "table"
	wideFormat  = "wide"
)

// addTo adds the flag. more are formats that only this command has.
func (f *outputFlags) addTo(command *cobra.Command, flags *pflag.FlagSet, more ...string) {
	f.formats = append([]string{tableFormat, wideFormat, output.JSON, output.YAML}, more...)
	flags.StringVarP(&f.format, "output", "o", tableFormat, f.allowed())
	completeValues(command, "output", append(slices.Clone(f.formats), "jsonpath=", "go-template=")...)
}

func (f *outputFlags) allowed() string {
	return strings.Join(f.formats, ", ") + ", jsonpath=TEMPLATE or go-template=TEMPLATE"
}

func (f *outputFlags) validate() error {
	if slices.Contains(f.formats, f.format) {
		return nil
	}
	_, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("%q; write %s", f.format, f.allowed())
	}
	if err != nil {
		return usageError{fmt.Errorf("--output: %w", err)}
	}
	return nil
}

// refuseNames refuses the names of a list whose objects are in several namespaces. kubectl would look for all of them in one.
func (f *outputFlags) refuseNames(list, object string) error {
	if f.format != output.Names {
		return nil
	}
	return usageError{fmt.Errorf("--output: names lack the namespaces of the %s; write -o '%s' | xargs -L1 kubectl get",
		list, namesWithNamespace(list, object))}
}

// namesWithNamespace is the format that prints kubectl's arguments for each object of a list, one a line.
func namesWithNamespace(list, object string) string {
	return fmt.Sprintf(`jsonpath={range .%s[*]}-n {.namespace} %s{"\n"}{end}`, list, object)
}

func (f *outputFlags) isTable() bool { return f.format == tableFormat || f.format == wideFormat }

// print prints the result, a pointer to a value with JSON tags. A table is printed with its title and notes on standard error.
func (f *outputFlags) print(cmd *cobra.Command, result any, title string, notes []string, table func(*terminal.Printer)) error {
	if !f.isTable() {
		return output.Write(cmd.OutOrStdout(), f.format, result)
	}
	if title != "" {
		printLines(cmd.ErrOrStderr(), title)
	}
	p := &terminal.Printer{Style: terminal.StyleOf(cmd.OutOrStdout())}
	if f.format == wideFormat {
		p.Width = 0
	}
	table(p)
	if _, err := io.WriteString(cmd.OutOrStdout(), p.String()); err != nil {
		return err
	}
	printLines(cmd.ErrOrStderr(), notes...)
	return nil
}

func printLines(w io.Writer, texts ...string) {
	p := &terminal.Printer{Style: terminal.StyleOf(w)}
	for _, text := range texts {
		p.Printf("%s\n", text)
	}
	fmt.Fprint(w, p.String())
}
