package requests

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// none stands for an amount that there is not.
const none = "-"

// Print prints a row for each container, what the recommendations free, and what was not seen long enough.
func (r *Report) Print(p *terminal.Printer) {
	headers := []string{
		"NAMESPACE", "WORKLOAD", "CONTAINER", "PODS", "CPU-REQUEST", "CPU-MEAN", "CPU-P95", "CPU-MAX", "CPU-RECOMMENDED",
		"MEM-REQUEST", "MEM-MEAN", "MEM-P95", "MEM-MAX", "MEM-RECOMMENDED", "STATE",
	}
	var rows [][]string
	for _, w := range r.Workloads {
		for _, c := range w.Containers {
			row := []string{w.Namespace, w.Kind + "/" + w.Name, c.Name, strconv.Itoa(w.Pods)}
			for _, of := range c.resources() {
				row = append(row, shown(of.requested()))
				if of.Usage == nil {
					row = append(row, none, none, none)
				} else {
					row = append(row, of.Usage.Mean.String(), of.Usage.P95.String(), of.Usage.Max.String())
				}
				row = append(row, shown(of.RecommendedRequest))
			}
			rows = append(rows, append(row, c.state(&r.Rule)))
		}
	}
	terminal.TextTable(headers, rows).Print(p, true)
	p.Printf("\n%s\n", &r.Rule)
	p.Printf("%s\n%s\n", r.CPU.sentence(load.CPU), r.Memory.sentence(load.Memory))
	if short := r.shortHistory(); len(short) > 0 {
		p.Printf("Not seen for %v, so nothing is recommended: %s\n", r.Rule.MinHistory.Duration, text.FirstN(short))
	}
	if len(r.Skipped) > 0 {
		p.Printf("Left out: %s\n", text.FirstN(r.Skipped))
	}
}

func shown(q *resource.Quantity) string {
	if q == nil {
		return none
	}
	return q.String()
}

// state says what to know before the recommendation is followed.
func (c *Container) state(rule *Rule) string {
	switch {
	case c.CPU.Usage == nil && c.Memory.Usage == nil:
		return "no usage"
	case !rule.seenEnough(&c.CPU) || !rule.seenEnough(&c.Memory):
		return fmt.Sprintf("seen for %.1f h", min(c.CPU.SeenSeconds, c.Memory.SeenSeconds)/time.Hour.Seconds())
	case c.Memory.AtLimit:
		return "memory at its limit"
	case c.CPU.AtLimit:
		return "cpu at its limit"
	}
	return ""
}

func (s *Sum) sentence(r load.Resource) string {
	verb, freed := "frees", s.Freed(r)
	if freed < 0 {
		verb, freed = "takes", -freed
	}
	q := quantity(r, freed)
	return fmt.Sprintf("%s: pods request %s, and %s is recommended: this %s %s, %.1f %% of the allocatable.",
		r, s.Requested.String(), s.Recommended.String(), verb, q.String(), max(s.FreedPercent(r), -s.FreedPercent(r)))
}

// WriteCSV writes a row for each container, with amounts in milliCPU and bytes.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	header := []string{"namespace", "kind", "workload", "container", "pods"}
	for of := range load.ResourceCount {
		unit := [load.ResourceCount]string{load.CPU: "_milli", load.Memory: "_bytes"}[of]
		header = append(header, of.String()+"_seen_seconds")
		for _, column := range []string{"request", "limit", "mean", "p95", "max", "recommended_request", "recommended_limit"} {
			header = append(header, of.String()+"_"+column+unit)
		}
	}
	rows := [][]string{header}
	for _, workload := range r.Workloads {
		for _, c := range workload.Containers {
			row := []string{workload.Namespace, workload.Kind, workload.Name, c.Name, strconv.Itoa(workload.Pods)}
			for r, of := range c.resources() {
				row = append(row, strconv.FormatFloat(of.SeenSeconds, 'f', 0, 64))
				usage := [3]*resource.Quantity{}
				if of.Usage != nil {
					usage = [3]*resource.Quantity{&of.Usage.Mean, &of.Usage.P95, &of.Usage.Max}
				}
				for _, q := range []*resource.Quantity{
					of.Request, of.Limit, usage[0], usage[1], usage[2], of.RecommendedRequest, of.RecommendedLimit,
				} {
					row = append(row, number(load.Resource(r), q))
				}
			}
			rows = append(rows, row)
		}
	}
	return out.WriteAll(rows)
}

// number is empty for nil.
func number(r load.Resource, q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	return strconv.FormatFloat(amount(r, q), 'f', 0, 64)
}

// WritePatches writes a strategic merge patch for each workload with a recommendation, as YAML. It has resources alone.
func (r *Report) WritePatches(w io.Writer) error {
	return r.eachPatch(func(workload *Workload, spec object) error {
		content, err := yaml.Marshal(object{
			"apiVersion": workload.APIVersion, "kind": workload.Kind,
			"metadata": object{"namespace": workload.Namespace, "name": workload.Name}, "spec": spec,
		})
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", content)
		}
		return err
	})
}

// WriteCommands writes a shell command for each workload with a recommendation, which patches it in the cluster.
func (r *Report) WriteCommands(w io.Writer, chosen cluster.Chosen) error {
	return r.eachPatch(func(workload *Workload, spec object) error {
		content, err := json.Marshal(object{"spec": spec})
		if err == nil {
			_, err = fmt.Fprintln(w, cluster.Kubectl("-n", workload.Namespace, "patch", strings.ToLower(workload.Kind), workload.Name,
				"--patch", string(content)).For(chosen))
		}
		return err
	})
}

// eachPatch calls visit for each workload with a recommendation.
func (r *Report) eachPatch(visit func(w *Workload, spec object) error) error {
	for _, workload := range r.Workloads {
		if spec := workload.patch(); spec != nil {
			if err := visit(workload, spec); err != nil {
				return err
			}
		}
	}
	return nil
}

type object = map[string]any

// patch returns a spec with resources alone; nil without a recommendation.
func (w *Workload) patch() object {
	var containers []any
	for _, c := range w.Containers {
		requests, limits := object{}, object{}
		for r, of := range c.resources() {
			name := load.Resource(r).String()
			if of.RecommendedRequest != nil {
				requests[name] = of.RecommendedRequest
			}
			if of.RecommendedLimit != nil {
				limits[name] = of.RecommendedLimit
			}
		}
		if len(requests) == 0 {
			continue
		}
		resources := object{"requests": requests}
		if len(limits) > 0 {
			resources["limits"] = limits
		}
		containers = append(containers, object{"name": c.Name, "resources": resources})
	}
	if len(containers) == 0 {
		return nil
	}
	spec := object{"template": object{"spec": object{"containers": containers}}}
	if w.Kind == "CronJob" {
		spec = object{"jobTemplate": object{"spec": spec}}
	}
	return spec
}
