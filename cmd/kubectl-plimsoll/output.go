package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

// outputFlags say how results are printed.
type outputFlags struct{ format string }

func (f *outputFlags) addTo(command *cobra.Command, flags *pflag.FlagSet) {
	flags.StringVarP(&f.format, "output", "o", "table", "table, json, yaml, jsonpath=TEMPLATE or go-template=TEMPLATE")
	formats := []cobra.Completion{"table", "json", "yaml", "jsonpath=", "go-template="}
	completeFlag(command, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func (f *outputFlags) validate() error {
	switch f.format {
	case "table", "json", "yaml":
		return nil
	}
	_, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("%q; write table, json, yaml, jsonpath=TEMPLATE or go-template=TEMPLATE", f.format)
	}
	if err != nil {
		return usageError{fmt.Errorf("--output: %w", err)}
	}
	return nil
}

// print prints the result, a pointer to a value with JSON tags. A table is printed with its title and notes on standard error.
func (f *outputFlags) print(cmd *cobra.Command, result any, title string, notes []string, table func(*terminal.Printer)) error {
	if f.format != "table" {
		return f.encode(cmd.OutOrStdout(), result)
	}
	if title != "" {
		printLines(cmd.ErrOrStderr(), title)
	}
	p := &terminal.Printer{Style: terminal.StyleOf(cmd.OutOrStdout())}
	table(p)
	if _, err := io.WriteString(cmd.OutOrStdout(), p.String()); err != nil {
		return err
	}
	printLines(cmd.ErrOrStderr(), notes...)
	return nil
}

func (f *outputFlags) encode(w io.Writer, result any) error {
	switch f.format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(result)
	case "yaml":
		text, err := yaml.Marshal(result)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	printer, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(f.format)
	if err != nil {
		return err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: fields}, w)
}

// printLines prints a line for each text.
func printLines(w io.Writer, texts ...string) {
	p := &terminal.Printer{}
	for _, text := range texts {
		p.Printf("%s\n", text)
	}
	fmt.Fprint(w, p.String())
}
