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
