package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// warned returns the warnings about a configuration beside flags of leader election, keys and values in one list.
func warned(t *testing.T, config string, args ...string) [][]any {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bool("leader-elect", true, "")
	for _, name := range []string{"lease-duration", "renew-deadline", "retry-period"} {
		flags.Duration("leader-elect-"+name, time.Second, "")
	}
	for _, name := range []string{"resource-lock", "resource-name", "resource-namespace"} {
		flags.String("leader-elect-"+name, "default", "")
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := checkConfiguration(file, []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "TargetLoadPacking"}, flags)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]any
	for _, w := range found {
		all = append(all, append([]any{w.message}, w.keysAndValues...))
	}
	return all
}

func TestWhatHasNoEffectIsWarnedOf(t *testing.T) {
	const (
		disables = "The configuration disables a plugin that does not exist: it has no effect"
		argues   = "The configuration has arguments for a plugin that does not exist: they are not used"
		differs  = "The configuration and a flag differ: the flag counts"
	)
	for _, tt := range []struct {
		name, config string
		args         []string
		want         [][]any
	}{
		{"known names", `profiles:
- plugins:
    multiPoint: {disabled: [{name: NodeResourcesFit}]}
    score: {disabled: [{name: "*"}], enabled: [{name: TargetLoadPacking}]}
  pluginConfig: [{name: TargetLoadPacking}]
`, nil, nil},
		// A letter is missing; one has moved; the rest is missing; nothing is alike; a letter is missing.
		{"mistyped names", `profiles:
- schedulerName: one
- schedulerName: two
  plugins:
    score:
      disabled:
      - name: NodeResourceFit
      - name: nodeResourceFits
      - name: NodeResourcesBalanced
      - name: Coscheduling
  pluginConfig:
  - name: TargetLoadPaking
`, nil, [][]any{
			{disables, "field", "profiles[1].plugins.score.disabled[0]", "line", 9, "name", "NodeResourceFit", "similar", []string{"NodeResourcesFit"}},
			{disables, "field", "profiles[1].plugins.score.disabled[1]", "line", 10, "name", "nodeResourceFits", "similar", []string{"NodeResourcesFit"}},
			{disables, "field", "profiles[1].plugins.score.disabled[2]", "line", 11, "name", "NodeResourcesBalanced", "similar", []string{"NodeResourcesBalancedAllocation"}},
			{disables, "field", "profiles[1].plugins.score.disabled[3]", "line", 12, "name", "Coscheduling"},
			{argues, "field", "profiles[1].pluginConfig[0]", "line", 14, "name", "TargetLoadPaking", "similar", []string{"TargetLoadPacking"}},
		}},
		{"one list for two profiles", `profiles:
- schedulerName: one
  plugins: &both {score: {disabled: [{name: Coscheduling}]}}
- schedulerName: two
  plugins: *both
`, nil, [][]any{
			{disables, "field", "profiles[0].plugins.score.disabled[0]", "line", 5, "name", "Coscheduling"},
			{disables, "field", "profiles[1].plugins.score.disabled[0]", "line", 5, "name", "Coscheduling"},
		}},
		{"names of plugins that are gone", `profiles:
- plugins:
    score: {disabled: [{name: NodeResourcesLeastAllocated}, {name: SelectorSpread}]}
  pluginConfig: [{name: NodeResourcesMostAllocated}]
`, nil, [][]any{
			{disables, "field", "profiles[0].plugins.score.disabled[0]", "line", 5, "name", "NodeResourcesLeastAllocated", "instead", "write NodeResourcesFit, which scores by requests in its place and, disabled under score alone, still filters"},
			{disables, "field", "profiles[0].plugins.score.disabled[1]", "line", 5, "name", "SelectorSpread", "instead", "remove this entry"},
			{argues, "field", "profiles[0].pluginConfig[0]", "line", 6, "name", "NodeResourcesMostAllocated", "instead", "write name: NodeResourcesFit, and args: {scoringStrategy: {type: MostAllocated, resources: […]}} with what stands here"},
		}},
		{"flags that say otherwise", `leaderElection:
  leaderElect: false
  leaseDuration: 20s
  renewDeadline: 15s
  retryPeriod: 3s
  resourceLock: leases
  resourceName: ours
  resourceNamespace: kube-system
`, []string{
			"--leader-elect=true", "--leader-elect-lease-duration=137s", "--leader-elect-renew-deadline=107s", "--leader-elect-retry-period=26s",
			"--leader-elect-resource-lock=leases", "--leader-elect-resource-name=secondary-scheduler", "--leader-elect-resource-namespace=operator",
		}, [][]any{
			{differs, "field", "leaderElection.leaderElect", "line", 4, "configured", "false", "flag", "--leader-elect=true"},
			{differs, "field", "leaderElection.leaseDuration", "line", 5, "configured", "20s", "flag", "--leader-elect-lease-duration=2m17s"},
			{differs, "field", "leaderElection.renewDeadline", "line", 6, "configured", "15s", "flag", "--leader-elect-renew-deadline=1m47s"},
			{differs, "field", "leaderElection.retryPeriod", "line", 7, "configured", "3s", "flag", "--leader-elect-retry-period=26s"},
			{differs, "field", "leaderElection.resourceName", "line", 9, "configured", "ours", "flag", "--leader-elect-resource-name=secondary-scheduler"},
			{differs, "field", "leaderElection.resourceNamespace", "line", 10, "configured", "kube-system", "flag", "--leader-elect-resource-namespace=operator"},
		}},
		{"flags that say the same in other words", "leaderElection: {leaderElect: true, leaseDuration: 137s}\n",
			[]string{"--leader-elect", "--leader-elect-lease-duration=2m17s"}, nil},
		{"flags alone", "leaderElection: {resourceName: ours}\n", []string{"--leader-elect=false"}, nil},
		{"the file alone", "leaderElection: {leaderElect: false}\n", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, warned(t, tt.config, tt.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
