package report

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// The table has the energy of reports with power models only.
func TestWriteTables_Energy(t *testing.T) {
	of := func(wattHours float64) string {
		var b strings.Builder
		r := &Report{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{EnergyHours: wattHours}}}}}
		check.OK(t, WriteTables(&b, []*Report{r}))
		return b.String()
	}
	// 12,345 Wh are 12.345 kWh.
	check.Contains(t, of(12345), "12.3", "ENERGY: Energy of all nodes")
	check.Lacks(t, of(0), "ENERGY")
}

// Below the table are the means of two days: (60 + 30) / 2 = 45, 10 / 2 = 5, 8 / 2 = 4, 60 / 2 = 30.
