//go:build servers && linux

package servers

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// outage is how long the tests look at an outage: longer than the 8 s for which a query without strict endpoints has a warning.
const outage = 40 * time.Second

// answer is what matters of a response.
type answer struct {
	nodes    int
	warnings []string
}

// String leaves out what differs between two responses of the same kind.
func (a answer) String() string { return fmt.Sprintf("%d nodes, warnings %q", a.nodes, a.warnings) }

// ask returns the number of nodes with a series, and the warnings.
func ask(t *testing.T, server string) answer {
	t.Helper()
	body := check.Value(get(server + "/api/v1/query?query=" + url.QueryEscape("count by (node) (node_memory_MemTotal_bytes)")))(t)
	var response struct {
		Warnings []string `json:"warnings"`
		Data     struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	check.OK(t, json.Unmarshal([]byte(body), &response))
	for i, warning := range response.Warnings {
		response.Warnings[i] = withoutPorts(warning)
	}
	slices.Sort(response.Warnings)
	return answer{nodes: len(response.Data.Result), warnings: response.Warnings}
}

// withoutPorts replaces the ports of addresses.
func withoutPorts(text string) string {
	parts := strings.Split(text, "127.0.0.1:")
	for i := range parts[1:] {
		parts[i+1] = "PORT" + strings.TrimLeft(parts[i+1], "0123456789")
	}
	return strings.Join(parts, "")
}

// watch asks both queries for the time of an outage, logs each change, and returns the last answers.
func (th *thanos) watch(t *testing.T, outages int) (plain, strict answer) {
	t.Helper()
	for start := time.Now(); time.Since(start) < outage; time.Sleep(time.Second) {
		change := func(query string, last *answer, server string) {
			if now := ask(t, server); now.String() != last.String() {
				t.Logf("%d sidecars stopped, %s, after %.1f s: %s", outages, query, time.Since(start).Seconds(), now)
				*last = now
			}
		}
		change("endpoint", &plain, th.address)
		change("endpoint-strict", &strict, th.strict)
	}
	return plain, strict
}

// TestThanos_Outage stops the sidecars of a shard, one after the other.
func TestThanos_Outage(t *testing.T) {
	f := newFarm(t)
	th := f.newThanos(t, []string{nodeExporter})
	ready := func() bool { return ask(t, th.address).nodes == 6 && ask(t, th.strict).nodes == 6 }
	for end := time.Now().Add(readyTimeout); !ready(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatalf("Thanos has %s, want 6 nodes", ask(t, th.address))
		}
	}
	// With one replica, all nodes have a value. Without the shard, half of them have.
	for stopped, want := range []int{6, 3} {
		th.sidecars[stopped].stop()
		plain, strict := th.watch(t, stopped+1)
		if plain.nodes != want || len(plain.warnings) > 0 {
			t.Errorf("%d sidecars stopped: endpoints have %s, want %d nodes, and no warning any more", stopped+1, plain, want)
		}
		if strict.nodes != want || len(strict.warnings) == 0 {
			t.Errorf("%d sidecars stopped: strict endpoints have %s, want %d nodes and a warning", stopped+1, strict, want)
		}
		checkWarned(t, th.strict)
	}
}

// checkWarned expects that the source passes the server's warnings on.
func checkWarned(t *testing.T, server string) {
	t.Helper()
	s := newSource(t, prometheus.Config{Dialect: promql.NodeExporter}, server)
	batch := fetch(t, s)
	d := s.Diagnosis()
	t.Logf("the source has %d samples, and none of the nodes %v", len(batch.Samples), d.NodesWithoutSeries)
	for _, q := range d.Queries {
		if len(q.Warnings) == 0 {
			t.Errorf("query %q has no warning", q.PromQL)
		}
	}
}
