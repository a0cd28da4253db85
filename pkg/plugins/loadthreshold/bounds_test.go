package loadthreshold

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// TestBounds counts three nodes: one of the profile's line, and two with annotations, one of which goes.
func TestBounds(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	shown := descriptor.NewMetrics(registry.MustRegister).For(Name)
	var a annotations
	profile := line{80, 0}
	high, low := a.of(node("high", "cpu=90,memory=70"), profile), a.of(node("low", "cpu=60"), profile)
	want := func(series string) {
		t.Helper()
		text := "# HELP plimsoll_load_line_ratio [ALPHA] Load line of the nodes with the Lowest and the Highest one, as a share of capacity.\n" +
			"# TYPE plimsoll_load_line_ratio gauge\n" + series
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "plimsoll_load_line_ratio"); err != nil {
			t.Error(err)
		}
	}
	for _, l := range []line{a.of(node("plain"), profile), high, low} {
		a.bounds.change(line{}, l, &shown)
	}
	want(`plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="cpu"} 0.9
plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="memory"} 0.7
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="cpu"} 0.6
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="memory"} 0.7
`)
	a.bounds.change(low, profile, &shown) // its annotation is removed
	a.bounds.change(high, line{}, &shown)
	want(`plimsoll_load_line_ratio{bound="Highest",plugin="LoadThreshold",resource="cpu"} 0.8
plimsoll_load_line_ratio{bound="Lowest",plugin="LoadThreshold",resource="cpu"} 0.8
`)
}
