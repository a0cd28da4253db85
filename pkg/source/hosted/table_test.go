package hosted

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

func TestTable_UnmatchedAreBounded(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	table := NewTable([]*corev1.Node{node}, ".example.com", text.Excerpt)
	rng := Range{Step: time.Minute, Windows: []time.Duration{time.Minute}}
	one := rng.Summarize([]Point{{Time: time.Unix(60, 0), Value: 0.5}}, time.Unix(60, 0))
	for i := range source.MaxUnmatched + 100 {
		table.Offer(fmt.Sprint("x", i), load.CPU, rng, time.Time{}, one)
	}
	table.Offer("n1.EXAMPLE.com", load.CPU, rng, time.Time{}, one)
	unmatched := table.Unmatched()
	if len(unmatched) != source.MaxUnmatched || !slices.IsSorted(unmatched) {
		t.Errorf("%d names, sorted: %t", len(unmatched), slices.IsSorted(unmatched))
	}
	if samples := table.Samples(rng.Windows); len(samples) != 1 || samples[0].Node != "n1" {
		t.Errorf("samples %v", samples)
	}
}

// TestTable_ForgedHost lets a tenant name n1 as the host of a series, beside the node's own series of 0.5. The source cannot know who
// sent a series. The cases are the bound in docs/security.md.
func TestTable_ForgedHost(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	rng := Range{Step: time.Minute, Windows: []time.Duration{time.Minute}}
	now := time.Unix(600, 0)
	for _, tt := range []struct {
		name, host, forgedHost string
		forged                 float64
		at                     time.Time
		want                   float64
	}{
		{"a lower value", "n1", "n1", 0.1, now, 0.5},
		{"a lower value by address", "n1", "10.0.0.1", 0.1, now, 0.5},
		{"a higher value by address", "n1", "10.0.0.1", 0.9, now, 0.5},
		{"an expired value", "n1", "n1", 0.9, now.Add(-time.Hour), 0.5},
		{"a value of the future", "n1", "n1", 0.9, now.Add(time.Hour), 0.5},
		{"a higher value", "n1", "n1", 0.9, now, 0.9},
		{"a lower value by name, where the agent sends the address", "10.0.0.1", "n1", 0.1, now, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, first := range []bool{false, true} {
				table := NewTable([]*corev1.Node{node, other}, "", text.Excerpt)
				offer := func(host string, value float64, at time.Time) {
					table.Offer(host, load.CPU, rng, now, rng.Summarize([]Point{{Time: at, Value: value}}, now))
				}
				if first {
					offer(tt.forgedHost, tt.forged, tt.at)
				}
				offer(tt.host, 0.5, now)
				offer("n2", 0.25, now)
				if !first {
					offer(tt.forgedHost, tt.forged, tt.at)
				}
				got := map[string]float64{}
				for _, sample := range table.Samples(rng.Windows) {
					got[sample.Node] = sample.Stats[load.CPU].Mean
				}
				if len(got) != 2 || got["n1"] != tt.want || got["n2"] != 0.25 {
					t.Errorf("forged first: %t: %v, want %v for n1 and 0.25 for n2", first, got, tt.want)
				}
			}
		})
	}
}
