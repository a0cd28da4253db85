package report

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func printed(r *Report) string {
	p := &terminal.Printer{}
	(&Result{Reports: []*Report{r}}).Print(p)
	return p.String()
}

// The table has the energy of reports with power models only.
func TestPrint_Energy(t *testing.T) {
	of := func(wattHours float64) string {
		r := &Report{Policies: []PolicyReport{{Name: Stock, Runs: []Run{{EnergyHours: wattHours}}}}}
		return printed(r)
	}
	// 12,345 Wh are 12.345 kWh.
	check.Contains(t, of(12345), "12.3", "ENERGY: Energy of all nodes")
	check.Lacks(t, of(0), "ENERGY")
}

// Means of two days are (1200 + 1800) / 2 = 1500 and 42. Brackets hold days that differ, and the
// note on them is there with them only.
func TestPrint_Brackets(t *testing.T) {
	for _, tt := range []struct {
		hot         []float64
		cells, note string
	}{
		{[]float64{1200, 1800}, "1,500 (1,200 – 1,800)  42 ", "Figures are means of 2 runs; brackets hold the lowest and the highest run.\n"},
		{[]float64{1500, 1500}, "1,500    42 ", "Figures are means of 2 runs.\n"},
		{[]float64{1500}, "1,500    42 ", "Figures are means of 1 run.\n"},
	} {
		r := &Report{Policies: []PolicyReport{{Name: Stock}}}
		for _, hot := range tt.hot {
			r.Policies[0].Runs = append(r.Policies[0].Runs, Run{HotMinutes: hot, SevereMinutes: 42, P99Utilization: 0.925})
		}
		check.Contains(t, printed(r), tt.cells, " 92.5 % ", tt.note)
	}
}
