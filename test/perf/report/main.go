// report reads the output of the benchmarks and prints a table of targets and results. It is a separate module, because its parser
// of benchmarks requires newer versions of some modules than the scheduler.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: report FILE...: files of benchmark output")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, paths []string) error {
	r, err := read(&benchfmt.Files{Paths: paths})
	if err != nil {
		return err
	}
	return write(out, r)
}

// write writes the table in Markdown, with rows that were not measured.
func write(out io.Writer, r results) error {
	lines := [][]string{{"what", "target", "measured (medians)", "reached"}, {"---", "---", "---", "---"}}
	for _, row := range rows() {
		measured, reached := row.measure(r)
		verdict := "no"
		switch {
		case measured == "" && row.optional:
			continue
		case measured == "":
			measured, verdict = "not measured", "–"
		case row.untargeted:
			verdict = "–"
		case reached:
			verdict = "yes"
		}
		lines = append(lines, []string{row.what, row.target, measured, verdict})
	}
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for _, cells := range lines {
		if _, err := fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")); err != nil {
			return err
		}
	}
	return w.Flush()
}
