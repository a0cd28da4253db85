package engine

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// BenchmarkReplay is a day of 100 nodes.
func BenchmarkReplay(b *testing.B) {
	in := check.Value(generate.Input(generate.Synthetic(1), generate.Scenarios()[0], 100, 1))(b)
	policies := check.Value(ReadPolicies("../testdata/known.yaml"))(b)
	for _, name := range BuiltinPolicies() {
		policies = append(policies, policy(b, name))
	}
	for _, p := range policies {
		b.Run("policy="+p.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check.Value(Run(b.Context(), in, p))(b)
			}
		})
	}
}
