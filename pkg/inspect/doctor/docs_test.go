package doctor

import (
	"os"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// TestDocs_Examples expects the examples in docs/see-why.md to have the printed lines, except where "..." leaves some out.
func TestDocs_Examples(t *testing.T) {
	content, err := os.ReadFile("../../../docs/see-why.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	faulty, fixed := healthy(), healthy()
	faulty.diagnosis.Dialect, faulty.diagnosis.Undetected = "", response.ErrNoSeries
	for _, dialect := range []promql.Dialect{"NodeExporter", "KubePrometheus", "Kubelet", "cAdvisor"} {
		faulty.diagnosis.Tried = append(faulty.diagnosis.Tried, diagnosis.Tried{Dialect: dialect, Err: response.ErrNoSeries})
	}
	faulty.diagnosis.NodesWithoutSeries = []string{"worker-1", "worker-2"}
	faulty.figures = withoutLoad("worker-1", "worker-2")
	faulty.examination.Labels = []diagnosis.LabelMatch{{Label: "kube_machine", Nodes: 2}}
	fixed.diagnosis.Tried = faulty.diagnosis.Tried[:2]
	for before, s := range map[string]*sourceFacts{"$ kubectl plimsoll doctor\n": faulty, "After the fix:\n\n```console\n": fixed} {
		_, example, _ := strings.Cut(page, before)
		example, _, _ = strings.Cut(example, "```")
		p := &terminal.Printer{}
		reportOn(s.Facts).Print(p)
		rest := p.String()
		for lines := range strings.SplitSeq(example, "...\n") {
			var found bool
			if _, rest, found = strings.Cut(rest, strings.TrimSpace(lines)+"\n"); !found || lines == "" {
				t.Errorf("docs/see-why.md has\n%s\nwant lines of\n%s", lines, p)
			}
		}
	}
}
