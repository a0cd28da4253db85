package report

import (
	"strings"
	"testing"
)

// The table has the energy of reports with power models only.
func TestWriteTables_Energy(t *testing.T) {
	of := func(wattHours float64) string {
		var b strings.Builder
		r := &Report{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{EnergyHours: wattHours}}}}}
		if err := WriteTables(&b, []*Report{r}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	// 12,345 Wh are 12.345 kWh.
	if table := of(12345); !strings.Contains(table, "12.3") || !strings.Contains(table, "ENERGY: Energy of all nodes") {
		t.Errorf("want 12.3 kWh and what they are, got\n%s", table)
	}
	if table := of(0); strings.Contains(table, "ENERGY") {
		t.Errorf("want no energy without power models, got\n%s", table)
	}
}

// The table has columns for latency-sensitive pods if there are batch pods.
func TestWriteTables_LatencySensitive(t *testing.T) {
	of := func(alone, pods float64) string {
		var b strings.Builder
		runs := []Run{{HotMinutes: 1000, SensitiveHotMinutes: alone, SensitivePodMinutes: pods}}
		if err := WriteTables(&b, []*Report{{Policies: []PolicyReport{{Name: Stock, Runs: runs}}}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, table := range []string{of(321, 0), of(0, 321)} {
		if !strings.Contains(table, "321") || !strings.Contains(table, "SENSITIVE-MIN: As Hot") ||
			!strings.Contains(table, "SENSITIVE-POD-MIN: Pod-minutes") {
			t.Errorf("want 321 minutes and what they are, got\n%s", table)
		}
	}
	if table := of(0, 0); strings.Contains(table, "SENSITIVE") {
		t.Errorf("want no column without batch pods, got\n%s", table)
	}
}

// Below the table are the means of two days: (60 + 30) / 2 = 45, 10 / 2 = 5, 8 / 2 = 4, 60 / 2 = 30.
func TestWriteTables_Stays(t *testing.T) {
	var b strings.Builder
	moving := []Run{{StayMinutes: map[string]float64{"NoRoom": 10, "LittleRelief": 60}, RestingMinutes: 8, DeferredMinutes: 2}, {
		StayMinutes: map[string]float64{"LittleRelief": 30}, StoppedMinutes: 6, BreakerMinutes: 60,
	}}
	if err := WriteTables(&b, []*Report{{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{}}}, {Name: "s+rebalance", Runs: moving}}}}); err != nil {
		t.Fatal(err)
	}
	const want = "\ns+rebalance: pod-minutes on hot nodes without a move: LittleRelief 45 NoRoom 5. " +
		"Node-minutes: Resting 4, Deferred 1. Minutes: NodesUnclear 3, BreakerOpen 30.\n"
	if table := b.String(); !strings.Contains(table, want) || strings.Contains(table, "stock: pod-minutes") {
		t.Errorf("want %q, and none for stock, got\n%s", want, table)
	}
}

// Below the table are the means of two days, such as (42 + 21) / 2 = 31.5.
func TestWriteTables_Freed(t *testing.T) {
	var b strings.Builder
	freed := []Run{
		{FreedNodes: 2, MostFreedNodes: 3, FreedNodeHours: 42, FreeMoves: 10, GivenUp: 1},
		{FreedNodes: 1, MostFreedNodes: 2, FreedNodeHours: 21, FreeMoves: 4},
	}
	if err := WriteTables(&b, []*Report{{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{}}}, {Name: "s+rebalance", Runs: freed}}}}); err != nil {
		t.Fatal(err)
	}
	const want = "\ns+rebalance: freed nodes: 1.5 on average, 3 at most, 31.5 node-hours. Moves that empty nodes: 7.0. Emptyings given up: 0.5.\n"
	if table := b.String(); !strings.Contains(table, want) || strings.Contains(table, "stock: freed") ||
		!strings.Contains(table, "\nFREED: Mean number of cordoned nodes") {
		t.Errorf("want %q, none for stock, and the column, got\n%s", want, table)
	}
}

// The table has a column for hot minutes after storms if there are storms.
func TestWriteTables_Storms(t *testing.T) {
	of := func(minutes float64) string {
		var b strings.Builder
		r := &Report{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{HotMinutes: 1000, StormMinutes: minutes}}}}}
		if err := WriteTables(&b, []*Report{r}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if table := of(321); !strings.Contains(table, "321") || !strings.Contains(table, "STORM-MIN: Hot node-minutes in the quarter") {
		t.Errorf("want 321 minutes and what they are, got\n%s", table)
	}
	if table := of(0); strings.Contains(table, "STORM") {
		t.Errorf("want no column without storms, got\n%s", table)
	}
}
