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
