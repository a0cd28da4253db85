package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

func TestCheckPowerModels(t *testing.T) {
	model := config.PowerModel{K1: 1, K2: 0.01}
	inPod := &cluster.Workload{
		Kind:      "Deployment",
		Namespace: "plimsoll-system",
		Name:      "plimsoll",
		Env:       map[string]string{config.NodePowerModelVariable: "/etc/models.json"},
	}
	for name, tt := range map[string]struct {
		args     config.PeaksArgs
		workload *cluster.Workload
		disabled bool
		want     Status
		texts    []string
	}{
		"each node has one": {
			args: config.PeaksArgs{NodePowerModel: map[string]config.PowerModel{"a": model}, NodePowerModels: []config.NodePowerModel{{NodeSelector: map[string]string{"type": "big"}, PowerModel: model}}},
			want: OK, texts: []string{"every node"},
		},
		"one node has none": {
			args: config.PeaksArgs{NodePowerModel: map[string]config.PowerModel{"a": model}},
			want: Warning, texts: []string{"no power model of 1 of 2 nodes (b)", "nodePowerModels:"},
		},
		"no node has one": {
			args: config.PeaksArgs{NodePowerModel: map[string]config.PowerModel{"zz": model}},
			want: Error, texts: []string{"no power model of 2 of 2 nodes (a, b)"},
		},
		"models are in a file of the pod": {
			workload: inPod,
			want:     Warning, texts: []string{"/etc/models.json", "exec deploy/plimsoll"},
		},
		"models by name come before the file": {
			workload: inPod, args: config.PeaksArgs{NodePowerModel: map[string]config.PowerModel{"a": model, "b": model}},
			want: OK, texts: []string{"every node"},
		},
		"Peaks is not enabled": {disabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(config.NodePowerModelVariable, "")
			plugins := &schedulerconfig.Plugins{}
			if !tt.disabled {
				plugins.Score.Enabled = []schedulerconfig.Plugin{{Name: config.Peaks}}
			}
			f := &Facts{
				Configuration: &cluster.Configuration{Origin: "FILE", Workload: tt.workload, Decoded: &schedulerconfig.KubeSchedulerConfiguration{
					Profiles: []schedulerconfig.KubeSchedulerProfile{
						{
							SchedulerName: "plimsoll",
							Plugins:       plugins,
							PluginConfig:  []schedulerconfig.PluginConfig{{Name: config.Peaks, Args: &tt.args}},
						},
					},
				}},
				nodes: []*corev1.Node{
					{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
					{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"type": "big"}}},
				},
			}
			simulated := (&gatherer{Facts: f}).withPowerModels().Profiles[0].PluginConfig[0].Args.(*config.PeaksArgs)
			checks := f.checkPowerModels()
			if tt.want == "" {
				if len(checks) > 0 {
					t.Errorf("checks %+v, want none", checks)
				}
				return
			}
			if len(checks) != 1 || checks[0].Status != tt.want {
				t.Fatalf("checks %+v, want one that is %s", checks, tt.want)
			}
			text := checks[0].Message
			for _, a := range checks[0].Advice {
				text += "\n" + a.Text + "\n" + a.Command + "\n" + a.YAML
			}
			for _, want := range tt.texts {
				if !strings.Contains(text, want) {
					t.Errorf("%s\nmust have %q", text, want)
				}
			}
			// The scheduler must start with any file.
			if len(simulated.NodePowerModel)+len(simulated.NodePowerModels) == 0 {
				t.Error("the configuration to examine has no model")
			}
			if len(tt.args.NodePowerModels) > 1 {
				t.Error("the cluster's configuration was changed")
			}
		})
	}
}
