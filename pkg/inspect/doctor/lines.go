package doctor

import (
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// checkLines checks that each line or rule leaves a node. If none is left, pods wait, or the limit is waived.
func (f *Facts) checkLines() []Result {
	return each(f.lines, func(l linesFacts) []Result {
		name, nodes := l.plugin+" of profile "+text.Excerpt(l.profile), text.Count(l.nodes, "node")
		passes, fails, change := "not above their load line", "above their load line", "raise the thresholds"
		if l.unmeasured {
			fails += ", or without load, which missingLoad: Reject rejects"
		}
		flags := slices.Concat(f.options.Configuration.Flags(), f.options.Source.Flags())
		see := f.AdviseRun(cluster.Plugin("top", append([]string{"--scheduler-name", l.profile}, flags...)...),
			"See the load of the nodes beside their lines:")
		if l.rules {
			passes, fails, change = "not rejected by its rules", "rejected by its rules", "change the rules"
			see = Advise("In %s, change the rules of %s, or find out why the metrics of all nodes are like this.",
				f.Configuration.Origin, name)
		}
		switch {
		case !l.limits:
			return nil
		case len(l.above) < l.nodes:
			return Fine("%s: %d of %s %s", name, l.nodes-len(l.above), nodes, passes)
		case l.waives:
			return Warn(see, "%s: all %s %s (%s), which is waived for every pod", name, nodes, fails, text.FirstN(l.above))
		}
		advice := f.adviseEdit("whenNoneFits: Relax\n", change+" of "+name+", or let pods in where no node passes:", "")
		return Fail(append(advice, see...),
			"%s: all %s %s (%s); no pod is placed while they are", name, nodes, fails, text.FirstN(l.above))
	})
}

// checkAnnotations checks the annotations that set a node's load line.
func (f *Facts) checkAnnotations() []Result {
	return each(f.lines, func(l linesFacts) []Result {
		if len(l.invalid) == 0 {
			return nil
		}
		return Warn(f.AdviseRun(cluster.Kubectl("annotate", "--overwrite", "node", l.invalid[0], l.annotation+"=cpu=70"),
			"The thresholds of the profile count instead. Correct the annotation, such as for 70 %% of cpu by:"),
			"%s has an annotation that is not used on %s (%s): %s", l.plugin, text.Count(len(l.invalid), "node"), text.FirstN(l.invalid),
			l.problem)
	})
}
