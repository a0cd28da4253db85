package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	xhtml "golang.org/x/net/html"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var policyNames = []string{Stock, "TargetLoadPacking", "LoadVariationRiskBalancing", "PredictedPeak", Clairvoyant}

// spread is how much the utilization of a policy's nodes varies in synthetic reports.
var spread = map[string]float64{
	Stock:                        0.165,
	"TargetLoadPacking":          0.145,
	"LoadVariationRiskBalancing": 0.15,
	"PredictedPeak":              0.13,
	Clairvoyant:                  0.105,
}

// synthetic is a report of a day in steps of five minutes. The utilization of each node wanders about a mean that follows the time
// of day; the report's figures are counted from the utilization.
func synthetic(nodes, runs int, policies ...string) *Report {
	const steps = 288
	r := &Report{
		Title: "base, three days", Nodes: nodes, Pods: 138 * nodes, CPUCores: 10.4 * float64(nodes), CountedSeconds: 21 * 3600,
		HotAbove: 0.8, SevereAbove: 0.95,
	}
	for p, name := range policies {
		policy := PolicyReport{Name: name}
		for i := range runs {
			random := rand.New(rand.NewPCG(uint64(i), uint64(p)))
			sd, ok := spread[name]
			if !ok {
				sd = 0.14
			}
			sd *= 1 + 0.12*float64(i-1)
			run := Run{
				Name: fmt.Sprintf("2011-03-%02d, seed %d", 3*(i+1), i+1), Seed: uint64(i + 1), Deviation: sd, NodesInUse: float64(nodes) - 0.4,
				Decisions: 138 * nodes, DecisionSeconds: 0.04 * float64(nodes), P99Utilization: 0.43 + 2.6*sd,
				Charts: &Charts{
					StepSeconds: 300, StartSeconds: 3 * 3600, HotNodes: make([]float64, steps), Distribution: make([]float64, 101),
				},
			}
			for n := range nodes {
				row := make([]byte, steps)
				x := random.NormFloat64()
				for s := range steps {
					x = 0.97*x + math.Sqrt(1-0.97*0.97)*random.NormFloat64()
					u := max(0, 0.43+0.06*math.Sin(2*math.Pi*float64(s)/steps-1)+sd*x)
					row[s] = byte(100 * u)
					if u > r.HotAbove {
						run.HotMinutes += 5
						run.Charts.HotNodes[s]++
					}
					if u > r.SevereAbove {
						run.SevereMinutes += 5
						run.UnservedCoreHours += 0.05
					}
					run.Charts.Distribution[min(100, int(100*u))] += 1 / float64(nodes*steps)
				}
				run.Charts.Utilization = append(run.Charts.Utilization, row)
				run.Charts.NodeNames = append(run.Charts.NodeNames, fmt.Sprintf("node-%04d", n))
			}
			policy.Runs = append(policy.Runs, run)
		}
		r.Policies = append(r.Policies, policy)
	}
	return r
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	page := check.Value(r.render())(t)
	return string(page)
}

func TestRender_IncompleteReports(t *testing.T) {
	for name, r := range map[string]*Report{
		"no policy":                       hotReport(),
		"one policy":                      hotReport(hot("A", 500, 600)),
		"no hot minutes":                  hotReport(hot(Stock, 0), hot("A", 0)),
		"no hot minutes with clairvoyant": hotReport(hot(Stock, 1000), hot(Clairvoyant, 0)),
	} {
		t.Run(name, func(t *testing.T) { render(t, r) })
	}
}

func TestTable(t *testing.T) {
	r := hotReport(hot(Stock, 2000, 4000), hot("A", 1000, 1400))
	p := newPage(r)
	// The mean is 2400/2 = 1200, 2400 of 6000 are 60 % fewer; bars are relative to the largest run, 4000.
	got := p.Rows[1]
	want := cell{Key: "hot", Mean: "1,200", Range: "1,000 – 1,400", VsStock: "60 % fewer", Values: "run 1: 1,000\nrun 2: 1,400"}
	if diff := cmp.Diff(want, got.Cells[0]); diff != "" {
		t.Error(diff)
	}
	check.Equal(t, "bar, start and size of its range", [3]float64{30, 25, 10}, [3]float64{got.Bar, got.RangeFrom, got.RangeSize})
	if !got.Best || p.Rows[0].Best {
		t.Error("A is not marked as the best policy")
	}
}

func TestTermsDefined(t *testing.T) {
	page := render(t, synthetic(10, 2, policyNames...))
	for _, m := range regexp.MustCompile(`data-term="(\w+)"`).FindAllStringSubmatch(page, -1) {
		check.Contains(t, page, `id="term-`+m[1]+`"`)
	}
}

func TestSize(t *testing.T) {
	const limit = 5_000_000
	page := render(t, synthetic(1000, 1, append(policyNames, "another")...)) // 288 steps and 6 policies
	if len(page) > limit {
		t.Errorf("the page has %d bytes, want at most %d", len(page), limit)
	}
}

func TestForeignText(t *testing.T) {
	const hostile = `</script><script>document.title="taken"</script><!--<script>"'&` + "\u2028"
	r := synthetic(2, 1, Stock, hostile)
	r.Title = hostile
	r.Policies[1].Runs[0].Charts.NodeNames[0] = hostile
	r.Policies[1].Runs[0].Name = hostile
	page := render(t, r)

	root := check.Value(xhtml.Parse(strings.NewReader(page)))(t)
	var scripts []string
	for n := range root.Descendants() {
		if n.Type == xhtml.ElementNode && n.Data == "script" {
			scripts = append(scripts, n.FirstChild.Data)
		}
	}
	check.Require(t, "the page scripts, want the data and the page's own", 2, len(scripts))
	var got data
	check.OK(t, json.Unmarshal([]byte(scripts[0]), &got))
	if p := got.Report.Policies[1]; p.Name != hostile || p.Runs[0].Charts.NodeNames[0] != hostile {
		t.Errorf("names changed: %q, %q", p.Name, p.Runs[0].Charts.NodeNames)
	}
}

func TestSelfContained(t *testing.T) {
	page := render(t, synthetic(2, 1, policyNames...))
	for _, m := range regexp.MustCompile(`(?i)(?:src|href)\s*=\s*"?([^"\s>]+)|url\(([^)]+)\)|@import`).FindAllStringSubmatch(page, -1) {
		if m[1] != "data:," {
			t.Errorf("the page refers to something outside: %s", m[0])
		}
	}
}

func TestWritePage_Private(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	check.OK(t, os.WriteFile(file, nil, 0o644)) // of an earlier version
	check.OK(t, WritePage(file, synthetic(1, 1, Stock)))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want a file that others cannot read", info.Mode(), err)
	}
}

// moving is a report of a policy without and with moves, in a run of two nodes and 10 minutes.
func moving() *Report {
	r := &Report{Title: "moves", Nodes: 2, CountedSeconds: 12 * 3600, HotAbove: 0.8, SevereAbove: 0.95}
	for _, name := range []string{"A", "A+rebalance"} {
		charts := &Charts{
			StepSeconds: 300, StartSeconds: 3600, HotNodes: []float64{0, 1}, Utilization: [][]byte{{20, 30}, {90, 99}},
			NodeNames: []string{"x", "y"}, Distribution: make([]float64, 101),
		}
		if name != "A" {
			charts.Moves = []MoveMark{{Seconds: 4199, From: "y", To: "x"}, {Seconds: 3600, From: "y"}}
		}
		r.Policies = append(r.Policies, PolicyReport{Name: name, Runs: []Run{{Name: "run 1", HotMinutes: 100, Charts: charts}}})
	}
	return r
}
