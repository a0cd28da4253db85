package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/test/browser"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// The page shows in a browser what the commands print of the same cluster.
func TestUI_Browser(t *testing.T) {
	topCluster(t, nil)
	huge := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}}
	check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "web", Scheduler: "plimsoll", Node: "worker-1"},
		cluster.Pod{Name: "huge", Scheduler: "plimsoll", Resources: huge}))
	check.Value(shared.WaitRefused(t.Context(), "huge"))(t)
	cmd, stderr, address := startUI(t)
	tb := browser.Open(t, address.String())
	tb.WaitFor("#count", "3 nodes: 1 above the line") // worker-2 has 85 %
	tb.WaitFor("#tiles", "1 waiting pod")

	tb.Exec(`location.hash = "#node=worker-1"`)
	tb.WaitFor("#pods", "default/web")
	waitUntil(t, func() bool { return slices.Equal(podsOfPage(tb), podsOfTop(t)) })
	tb.Accessible("node")

	tb.Exec(`location.hash = "#pod=default/web"`)
	waitUntil(t, func() bool { // the load of two looks differs
		e := explained(t, "web")
		tb.Exec(`location.hash = ""`)
		tb.WaitFor("#count", "3 nodes")
		tb.Exec(`location.hash = "#pod=default/web"`)
		tb.WaitFor("#pod-answer .verdict", "t") // one of the sentences
		verdict := browser.Eval[string](tb, `document.querySelector("#pod-answer .verdict").textContent`)
		if !e.Placement.Differs {
			return strings.HasPrefix(verdict, "✓ It would go to worker-1 today, too.")
		}
		return strings.HasPrefix(verdict, "▲ It would not go to worker-1 today, but to "+strings.Join(e.Decision.Nodes, ", "))
	})
	tb.Accessible("placed pod")
	tb.Exec(`location.hash = "#view=waiting&pod=default/huge"`)
	tb.WaitFor("#waiting", "default/huge")
	tb.WaitFor("#pod-answer .verdict", "✗ No node takes the pod.")
	waitUntil(t, func() bool { // the load of two looks differs
		got := browser.Eval[[]string](tb, rowsOf, `#pod-answer table[aria-label="Nodes ruled out"]`, "[0, 2]")
		return slices.Equal(got, ruledOut(explained(t, "huge")))
	})
	tb.Accessible("waiting pods")

	tb.Exec(`location.hash = "#view=whatif&drain=worker-2"`)
	tb.WaitFor("#whatif-answer .verdict", "pod") // the load of worker-2, and huge
	tb.Accessible("what if")
	tb.Exec(`location.hash = "#view=moves"`)
	tb.Exec(`document.querySelector("#plan").click()`)
	tb.WaitFor("#moves-answer .verdict", "move")
	tb.Accessible("moves")

	tb.Exec(`location.hash = ""`)
	tb.WaitFor("#health-summary", ", checked at")
	waitUntil(t, func() bool { // the page checks every minute
		summary := browser.Eval[string](tb, `document.querySelector("#health-summary").textContent`)
		return strings.Contains(summary, " Health: "+summaryOf(shared.doctor(t))+", checked at ")
	})
	tb.Exec(`for (const details of document.querySelectorAll("details")) details.open = true`)
	tb.Accessible("nodes and health")
	tb.Close()
	check.OK(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v: %s", err, stderr.String())
	}
}

// rowsOf returns texts of some cells of a table's rows, joined by a bar.
const rowsOf = `[...document.querySelector(%q).rows].filter((row) => row.querySelector("td"))
	.map((row) => %s.map((cell) => row.cells[cell].textContent).join("|"))`

func podsOfPage(tb *browser.Tab) []string {
	pods := browser.Eval[[]string](tb, rowsOf, "#pods", "[0, 2]") // name and CPU
	slices.Sort(pods)
	return pods
}

func podsOfTop(t *testing.T) (pods []string) {
	t.Helper()
	var printed top.Pods
	check.OK(t, json.Unmarshal([]byte(shared.plimsoll(t, "top", "pods", "worker-1", "-o", "json").wants(t, 0).stdout), &printed))
	for _, p := range printed.Pods {
		pods = append(pods, fmt.Sprintf("%s/%s|%dm", p.Namespace, p.Name, p.CPU.Usage.MilliValue())) // as the table does
	}
	slices.Sort(pods)
	return pods
}

// explained returns what explain prints of a pod.
func explained(t *testing.T, pod string) (e explain.Explanation) {
	t.Helper()
	check.OK(t, json.Unmarshal([]byte(shared.plimsoll(t, "explain", pod, "-n", "default", "-o", "json").stdout), &e))
	return e
}

// ruledOut returns the reasons, and the number of nodes of each.
func ruledOut(e explain.Explanation) (reasons []string) {
	for _, r := range e.RuledOut {
		reasons = append(reasons, r.Reason+"|"+strconv.Itoa(r.Count))
	}
	return reasons
}

// summaryOf counts errors and warnings as the header of the page does.
func summaryOf(r *doctor.Report) string {
	var found []string
	for _, of := range []struct {
		status doctor.Status
		noun   string
	}{{doctor.Error, "error"}, {doctor.Warning, "warning"}} {
		count := 0
		for _, c := range r.Checks {
			if c.Status == of.status {
				count++
			}
		}
		switch {
		case count == 1:
			found = append(found, "1 "+of.noun)
		case count > 1:
			found = append(found, fmt.Sprintf("%d %ss", count, of.noun))
		}
	}
	if found == nil {
		return "all is well"
	}
	return strings.Join(found, ", ")
}
