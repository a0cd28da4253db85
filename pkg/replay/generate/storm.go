package generate

import (
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const (
	// startupShare is the share of workloads whose pods use startupPeak times their mean for startupTime, as JVMs do.
	startupShare, startupPeak = 0.5, 4
	startupTime               = 90 * time.Second

	// A storm begins every stormEvery, up to stormJitter later.
	stormEvery, stormJitter = 40 * time.Minute, 5 * time.Minute
	// A service has 50 pods of a core each.
	services, serviceReplicas, serviceCores = 2, 50, 1
	// lostUtilization is that of the lost node.
	lostUtilization = 0.6
)

// storms adds services of many replicas that are created anew every few hours. Nodes are lost in between.
func (g *generator) storms() {
	var all []int
	created := make([]time.Duration, services)
	steady := slices.Repeat([]float32{1}, samplesPerDay)
	g.machines = append(slices.Clone(g.machines), steady)
	for i := range services {
		w := g.addWorkload()
		k := &g.kinds[w]
		k.machine, k.cores, k.alike, k.startup, k.service = len(g.machines)-1, serviceCores, true, true, true
		all = append(all, w)
		created[i] = time.Duration(g.rand.Float64() * float64(fillTime))
	}
	create := func(service int, until time.Duration) {
		lifetime := until - created[service]
		g.replicas(all[service], serviceReplicas, created[service], func() time.Duration { return lifetime })
		created[service] = until
	}
	for n := 0; ; n++ {
		at := g.Length - g.Counted + time.Duration(n)*stormEvery + time.Duration(g.rand.Float64()*float64(stormJitter))
		if at >= g.Length-input.StormLength {
			break
		}
		storm := input.Storm{At: at.Truncate(input.Tick)}
		if n%2 == 0 {
			create(n/2%services, storm.At)
		} else {
			storm.LostUtilization = lostUtilization
		}
		g.Storms = append(g.Storms, storm)
	}
	for i := range services {
		create(i, g.Length)
	}
}
