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
