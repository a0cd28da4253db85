package engine

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
)

// BenchmarkReplay is a day of 100 nodes.
func BenchmarkReplay(b *testing.B) {
	in, err := generate.Input(generate.Synthetic(1), generate.Scenarios()[0], 100, 1)
	if err != nil {
		b.Fatal(err)
	}
	policies, err := ReadPolicies("../testdata/known.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range BuiltinPolicies() {
		policies = append(policies, policy(b, name))
	}
	for _, p := range policies {
		b.Run("policy="+p.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Run(b.Context(), in, p, func(float64) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
