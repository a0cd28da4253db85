package doctor

import (
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
)

// checkLines compares the nodes with the load lines. Without a node below its line, pods wait, or lines have no effect.
func (f *facts) checkLines() []Check {
	return each(f.lines, func(l linesFacts) []Check {
		name := l.plugin + " of profile " + text.Excerpt(l.profile)
		top := run("kubectl plimsoll top --scheduler-name "+live.ShellQuote(l.profile), "See the load of the nodes beside their lines:")
		switch {
		case l.nodes == 0:
			return nil
		case len(l.above) < l.nodes:
			return ok("%s: %d of %s below their load line", name, l.nodes-len(l.above), text.Count(l.nodes, "node"))
		case l.waives:
			return warn(top, "%s: all %s above their load line (%s); the line is waived for every pod", name,
				text.Count(l.nodes, "node"), text.FirstN(l.above))
		}
		todo := "raise the thresholds of " + name + ", or let pods in where no node is below:"
		return fail(append(f.edit("whenNoneFits: Relax\n", todo, ""), top...),
			"%s: all %s above their load line (%s); no pod is placed while they are", name, text.Count(l.nodes, "node"),
			text.FirstN(l.above))
	})
}

// checkAnnotations checks the annotations that state a node's own load line.
func (f *facts) checkAnnotations() []Check {
	return each(f.lines, func(l linesFacts) []Check {
		if len(l.invalid) == 0 {
			return nil
		}
		command := "kubectl annotate --overwrite node " + live.ShellQuote(l.invalid[0]) + " " + loadthreshold.Annotation + "=cpu=70"
		return warn(run(command, "The thresholds of the profile count instead. Correct the annotation, such as for 70 %% of cpu by:"),
			"%s has an annotation that is not used on %s (%s): %s", l.plugin, text.Count(len(l.invalid), "node"), text.FirstN(l.invalid),
			l.problem)
	})
}
