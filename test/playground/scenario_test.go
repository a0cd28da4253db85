package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// theExample is the worked example as it has to come out.
func theExample() workedExample {
	return workedExample{measured: map[string]float64{"worker-1": 0.25, "worker-2": 0.5, "worker-3": 0.1}, landed: "worker-1"}
}

func TestWorkedExample(t *testing.T) {
	want := `Three 8-core workers, load line at 40 %, a pod that uses next to nothing.
  node        measured   score
  worker-1      25.0 %    77.5  ████████····|·················  <- the pod
  worker-2      50.0 %    33.3  ████████████|██···············
  worker-3      10.0 %    55.0  ███·········|·················
`
	if diff := cmp.Diff(want, written(theExample())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := theExample().check(); err != nil {
		t.Errorf("check() = %v", err)
	}

	elsewhere := theExample()
	elsewhere.landed = "worker-3"
	wantError(t, elsewhere.check(), "the pod is on worker-3, must be on worker-1")
	mismeasured := theExample()
	// (100 − 40)·27/40 + 40
	mismeasured.measured["worker-1"] = 0.27
	wantError(t, mismeasured.check(), "worker-1 scores 80.5, must be 77.5")
}

// theLie is the second scenario as it comes out: eight pods on each of the five warmest quiet nodes against four on each of
// the busy ones.
func theLie() requestsLie {
	r := requestsLie{
		plimsoll: placement{profile: "plimsoll", pods: map[string]int{}, measured: map[string]float64{}},
		stock:    placement{profile: "default-scheduler", pods: map[string]int{}, measured: map[string]float64{}},
	}
	for i, n := range liars() {
		r.plimsoll.measured[n.name], r.stock.measured[n.name] = n.load, n.load
		switch {
		case n.busy:
			r.stock.pods[n.name] = 4
			r.stock.measured[n.name] += 4 * liarUsage
		case i >= 5:
			r.plimsoll.pods[n.name] = 8
			r.plimsoll.measured[n.name] += 8 * liarUsage
		}
	}
	return r
}

func TestRequestsLie(t *testing.T) {
	want := `The same 40 pods under each profile. Each bar is a node's CPU, the mark | its load line at 40 %,
the figure behind it how many of the pods it got. busy-* have small requests, quiet-* large ones.
          plimsoll                                     default-scheduler
quiet-01  █···········|·················   4.0 %       █···········|·················   4.0 %
quiet-02  ██··········|·················   5.0 %       ██··········|·················   5.0 %
quiet-03  ██··········|·················   6.0 %       ██··········|·················   6.0 %
quiet-04  ██··········|·················   7.0 %       ██··········|·················   7.0 %
quiet-05  ██··········|·················   8.0 %       ██··········|·················   8.0 %
quiet-06  █████████···|·················  29.0 %  +8   ███·········|·················   9.0 %
quiet-07  █████████···|·················  30.0 %  +8   ███·········|·················  10.0 %
quiet-08  █████████···|·················  31.0 %  +8   ███·········|·················  11.0 %
quiet-09  ██████████··|·················  32.0 %  +8   ████········|·················  12.0 %
quiet-10  ██████████··|·················  33.0 %  +8   ████········|·················  13.0 %
busy-01   ████████████|███████████······  81.0 %       ████████████|██████████████···  91.0 %  +4
busy-02   ████████████|████████████·····  82.0 %       ████████████|███████████████··  92.0 %  +4
busy-03   ████████████|████████████·····  83.0 %       ████████████|███████████████··  93.0 %  +4
busy-04   ████████████|████████████·····  84.0 %       ████████████|███████████████··  94.0 %  +4
busy-05   ████████████|█████████████····  85.0 %       ████████████|████████████████·  95.0 %  +4
busy-06   ████████████|█████████████····  86.0 %       ████████████|████████████████·  96.0 %  +4
busy-07   ████████████|█████████████····  87.0 %       ████████████|████████████████·  97.0 %  +4
busy-08   ████████████|█████████████····  88.0 %       ████████████|████████████████·  98.0 %  +4
busy-09   ████████████|██████████████···  89.0 %       ████████████|█████████████████  99.0 %  +4
busy-10   ████████████|██████████████···  90.0 %       ████████████|█████████████████ 100.0 %  +4
hottest   busy-10 at 90.0 %                            busy-10 at 100.0 %
> 80 %    10 nodes                                     10 nodes
on busy   0 of 40 pods                                 40 of 40 pods
`
	if diff := cmp.Diff(want, written(theLie())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := theLie().check(); err != nil {
		t.Errorf("check() = %v", err)
	}
}

func TestRequestsLieFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*requestsLie)
		want  string
	}{
		{"a pod on a busy node", func(r *requestsLie) { r.plimsoll.pods["busy-03"] = 1 }, "plimsoll put 1 pods on busy nodes, must be none"},
		{"a quiet node that is filled above the line", func(r *requestsLie) { r.plimsoll.measured["quiet-02"] = 0.41 }, "plimsoll filled quiet-02 to 41.0 %, above the load line"},
		{
			"requests that lure nobody",
			func(r *requestsLie) { r.stock.pods = map[string]int{"quiet-01": 20, "busy-01": 20} },
			"default-scheduler put 20 pods on busy nodes, where requests should have lured most of them",
		},
		{
			"a node that is as hot as under the other profile",
			func(r *requestsLie) { r.plimsoll.measured = maps.Clone(r.stock.measured) },
			"the hottest node of plimsoll, at 100.0 %, is no cooler than that of default-scheduler",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := theLie()
			tt.spoil(&r)
			wantError(t, r.check(), tt.want)
		})
	}
}

// theBurst is the third scenario as it comes out: the model fills the most loaded nodes and leaves 21 pods to the idle one,
// the stock profile levels what is requested.
func theBurst() burst {
	r := burst{
		plimsoll: placement{profile: "plimsoll-1m", pods: map[string]int{}, measured: map[string]float64{}},
		stock:    placement{profile: "default-scheduler", pods: map[string]int{}, measured: map[string]float64{}},
	}
	room := map[string]int{
		"idle": 21, "loaded-1": 15, "loaded-2": 13, "loaded-3": 12, "loaded-4": 10, "loaded-5": 9, "loaded-6": 7, "loaded-7": 6,
		"loaded-8": 4, "loaded-9": 3,
	}
	for _, n := range burstNodes() {
		load := float64(n.cpu) / 8000
		r.plimsoll.pods[n.name], r.stock.pods[n.name] = room[n.name], 8
		if n.cpu == 0 {
			r.stock.pods[n.name] = 28
		}
		r.plimsoll.measured[n.name] = load + burstUsage*float64(r.plimsoll.pods[n.name])
		r.stock.measured[n.name] = load + burstUsage*float64(r.stock.pods[n.name])
	}
	return r
}

func TestBurst(t *testing.T) {
	// A full node is at 40 − ¾·1.25 = 39.06 %, the idle one at 21·1.25 = 26.25 %.
	want := `100 pods at once, each requests and uses 100m, on 8-core nodes: one idle, nine that request 2 cores
and use 1.63 to 2.83. CPU as measured 60 s after the last pod was bound; the load line | is 40 %.
          plimsoll-1m                                  default-scheduler
idle      ████████····|·················  26.2 % +21   ███████████·|·················  35.0 % +28
loaded-1  ████████████|·················  39.1 % +15   █████████···|·················  30.3 %  +8
loaded-2  ████████████|·················  39.1 % +13   ██████████··|·················  32.8 %  +8
loaded-3  ████████████|·················  39.1 % +12   ██████████··|·················  34.1 %  +8
loaded-4  ████████████|·················  39.1 % +10   ███████████·|·················  36.6 %  +8
loaded-5  ████████████|·················  39.1 %  +9   ███████████·|·················  37.8 %  +8
loaded-6  ████████████|·················  39.1 %  +7   ████████████|·················  40.3 %  +8
loaded-7  ████████████|·················  39.1 %  +6   ████████████|·················  41.6 %  +8
loaded-8  ████████████|·················  39.1 %  +4   ████████████|·················  44.1 %  +8
loaded-9  ████████████|·················  39.1 %  +3   ████████████|█················  45.3 %  +8
hottest   loaded-7 at 39.1 %                           loaded-9 at 45.3 %
over line 0 nodes                                      4 nodes
with room 1 nodes                                      6 nodes
`
	got := theBurst()
	// Which of the full nodes is hottest is in the last digits; make it one.
	got.plimsoll.measured["loaded-7"] += 0.0001
	if diff := cmp.Diff(want, written(got)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := got.check(); err != nil {
		t.Errorf("check() = %v", err)
	}
}

func TestBurstFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*burst)
		want  string
	}{
		{"a pod that is nowhere", func(r *burst) { r.plimsoll.pods["idle"]-- }, "plimsoll-1m put 99 of 100 pods into its pool"},
		{"a node that is not measured", func(r *burst) { delete(r.plimsoll.measured, "loaded-2") }, "9 of 10 nodes are measured"},
		{
			"a node above the line while another has room",
			func(r *burst) { r.plimsoll.measured["loaded-2"] += burstUsage },
			"plimsoll-1m filled loaded-2 beyond the load line while there is room on idle",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := theBurst()
			tt.spoil(&r)
			wantError(t, r.check(), tt.want)
		})
	}
	full := theBurst()
	full.plimsoll.measured["idle"], full.plimsoll.measured["loaded-2"] = 0.39, 0.41
	if err := full.check(); err != nil {
		t.Errorf("a node above the line while no other has room: %v", err)
	}
}

// theOutage is the fourth scenario as it comes out.
func theOutage() outage {
	return outage{created: 150, bound: 150, recovered: true, phases: []outagePhase{
		{phaseBefore, 3 * time.Second, decisions{total: 15}},
		{phaseAway, 14 * time.Second, decisions{total: 70, requests: 40, aside: 21}},
		{phaseReturn, 10 * time.Second, decisions{total: 50, requests: 6, aside: 40}},
		{phaseAfter, 3 * time.Second, decisions{total: 15}},
	}}
}

func TestOutage(t *testing.T) {
	want := `Prometheus is stopped for longer than load is trusted (10 s) while a pod arrives every 200ms.
What the placements were decided by, as the scheduler's own metrics say:
                    seconds  decisions  fresh load by requests* stepped aside
Prometheus runs         3.0         15          15            0             0
it is stopped          14.0         70           9           40            21
it is back             10.0         50           4            6            40
load decides again      3.0         15          15            0             0
in all                 30.0        150          43           46            61
* at least one node was: the one whose load moves is not trusted for as long as the others
150 of 150 pods are bound
`
	if diff := cmp.Diff(want, written(theOutage())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := theOutage().check(); err != nil {
		t.Errorf("check() = %v", err)
	}
}

func TestOutageFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*outage)
		want  string
	}{
		{"a pod that is not bound", func(r *outage) { r.bound-- }, "149 of 150 pods are bound"},
		{
			"load that does not decide again",
			func(r *outage) { r.recovered, r.phases = false, r.phases[:3] },
			"load does not decide again 1m0s after Prometheus is back",
		},
		{
			"load that is trusted for too long",
			func(r *outage) { r.phases[1].decisions.aside = 0 },
			"no decision was made without any load, though load was older than it is trusted",
		},
		{
			"load that goes away again",
			func(r *outage) { r.phases[3].decisions.aside = 5 },
			"load decides again: 10 of 15 decisions were made by fresh load, 5 without any",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := theOutage()
			tt.spoil(&r)
			wantError(t, r.check(), tt.want)
		})
	}
}

// theLatency is the fifth scenario as it has to come out.
func theLatency() latencies {
	steps := latencySteps()
	steps[0].landed = map[string]string{"a": "web-2", "b": "web-2", "c": "web-2"}
	steps[1].landed = map[string]string{"d": "web-1", "e": "web-1"}
	return steps
}

func TestLatency(t *testing.T) {
	want := `Three nodes, alike but for their HTTP latency; two latencies are turned round before more come.
         first 3 replicas     then 2 replicas
web-1      2.00 s               0.05 s  +2
web-2      0.05 s  +3           2.00 s
web-3      0.40 s               0.40 s
`
	if diff := cmp.Diff(want, written(theLatency())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := theLatency().check(); err != nil {
		t.Errorf("check() = %v", err)
	}

	unturned := theLatency()
	unturned[1].landed["e"] = "web-2"
	wantError(t, unturned.check(), "1 of 2 replicas are on web-1, which has the best latency, must be all")
	lost := theLatency()
	delete(lost[0].landed, "b")
	wantError(t, lost.check(), "2 of 3 replicas are on web-2, which has the best latency, must be all")
}

// theOverload is the sixth scenario as it comes out.
func theOverload() overload {
	return overload{
		measured: overloaded(), relaxed: "full-3", rejected: "full-1",
		why:          "0/3 nodes are available: 3 node(s) above their cpu load line. preemption: 0/3 nodes are available.",
		afterRefusal: 13 * time.Millisecond, afterFall: 2300 * time.Millisecond,
	}
}

func TestOverload(t *testing.T) {
	// The mark of a line at 80 % is the cell after the 24th of 30. 95 % is 28.5 cells, rounded up, 90 % 27 and 85 % 25.5.
	want := `All nodes are above their load line | at 80 %: a pod for which it is soft, and one that waits.
full-1    95.0 %  ████████████████████████|████·
full-2    90.0 %  ████████████████████████|██···
full-3    85.0 %  ████████████████████████|█····  <- Relax
Relax:  on full-3 0.013 s after it was refused
Reject: waits, 0/3 nodes are available: 3 node(s) above their cpu load line
        on full-1 2.3 s after its load fell from 95 to 20 %
`
	if diff := cmp.Diff(want, written(theOverload())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if err := theOverload().check(); err != nil {
		t.Errorf("check() = %v", err)
	}
}

func TestOverloadFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*overload)
		want  string
	}{
		{"a relaxed pod elsewhere", func(r *overload) { r.relaxed = "full-1" }, "with Relax the pod is on full-1, must be on full-3, the least loaded"},
		{"a pod on a node that is full", func(r *overload) { r.rejected = "full-3" }, "with Reject the pod is on full-3, must be on full-1, whose load fell"},
		{"a pod that did not wait", func(r *overload) { r.afterFall = -time.Second }, "a pod was bound before load fell"},
		{"a pod that waits for the flush", func(r *overload) { r.afterRefusal = 5 * time.Minute }, "a pod was bound only 5m0s after it was refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := theOverload()
			tt.spoil(&r)
			wantError(t, r.check(), tt.want)
		})
	}
}

func TestALongReasonIsCutToALine(t *testing.T) {
	if got := firstSentence("0/1 nodes are available: why. More."); got != "0/1 nodes are available: why" {
		t.Errorf("got %q", got)
	}
	if got := firstSentence(strings.Repeat("x", 200)); len(got) != 80 {
		t.Errorf("got %d letters, want 80", len(got))
	}
	if got := firstSentence("no stop"); got != "no stop" {
		t.Errorf("got %q", got)
	}
}

func TestEachScenarioFitsOnAScreen(t *testing.T) {
	var all []finding
	for _, f := range []finding{
		{"the worked example", theExample()}, {"requests lie", theLie()}, {"burst", theBurst()}, {"outage", theOutage()},
		{"latency", theLatency()}, {"overload", theOverload()},
	} {
		all = append(all, f)
		lines := strings.Split(strings.TrimRight(written(f.result), "\n"), "\n")
		if len(lines) > 35 {
			t.Errorf("%d lines of %s are more than one screen", len(lines), f.scenario)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	var b strings.Builder
	if err := show(page{out: &b}, all); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\nAll pods are where they must be.\n") {
		t.Errorf("the summary does not end in a verdict:\n%s", b.String())
	}
}

func TestTheSummaryNamesWhatIsWrongAndItsScenario(t *testing.T) {
	var b strings.Builder
	first, second := theExample(), theLie()
	first.landed = "worker-2"
	second.plimsoll.pods["busy-01"] = 2
	second.plimsoll.measured["quiet-01"] = 0.5
	err := show(page{out: &b}, []finding{{"the worked example", first}, {"requests lie", second}})
	if !errors.Is(err, errMisplaced) {
		t.Errorf("show() = %v, want %v", err, errMisplaced)
	}
	want := `
WRONG the worked example: the pod is on worker-2, must be on worker-1
WRONG requests lie: plimsoll put 2 pods on busy nodes, must be none; plimsoll filled quiet-01 to 50.0 %, above the load line
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("the summary does not end with\n%s\nbut is\n%s", want, b.String())
	}
}

func TestThereIsNoColorWhereThereIsNoTerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if paintFor(file).on {
		t.Error("a file is painted")
	}
}

func written(r result) string {
	var b strings.Builder
	r.write(page{out: &b})
	return b.String()
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		err = errors.New("no error")
	}
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
