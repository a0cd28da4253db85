package validation_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
)

func TestValidateLowRiskOverCommitmentArgs(t *testing.T) {
	type args = config.LowRiskOverCommitmentArgs
	for _, tt := range []struct {
		name   string
		change func(*args)
		want   []refusal
	}{
		{name: "the defaults are accepted", change: func(*args) {}},
		{name: "weights at the bounds are accepted", change: func(a *args) { a.RiskLimitWeights["cpu"], a.RiskLimitWeights["memory"] = 0, 1 }},
		{name: "a window of 1 is accepted", change: func(a *args) { a.SmoothingWindowSize = 1 }},
		{name: "pods without limits as requested are accepted", change: func(a *args) { a.UnlimitedPods = "AsRequest" }},
		{name: "a window of 0 is refused", change: func(a *args) { a.SmoothingWindowSize = 0 }, want: refused("smoothingWindowSize", "0", "at least 1")},
		{name: "a negative window is refused", change: func(a *args) { a.SmoothingWindowSize = -5 }, want: refused("smoothingWindowSize", "-5", "at least 1")},
		{name: "a negative weight is refused", change: func(a *args) { a.RiskLimitWeights["cpu"] = -0.1 }, want: refused("riskLimitWeights[cpu]", "-0.1", "[0, 1]")},
		{name: "a weight above 1 is refused", change: func(a *args) { a.RiskLimitWeights["memory"] = 50 }, want: refused("riskLimitWeights[memory]", "50", "[0, 1]")},
		{name: "a weight of NaN is refused", change: func(a *args) { a.RiskLimitWeights["cpu"] = math.NaN() }, want: refused("riskLimitWeights[cpu]", "NaN", "[0, 1]")},
		{name: "a weight of another resource is refused", change: func(a *args) { a.RiskLimitWeights["mem"] = 0.5 }, want: refused("riskLimitWeights[mem]", `"mem"`, `"cpu"`, `"memory"`)},
		{name: "an unknown unlimitedPods is refused", change: func(a *args) { a.UnlimitedPods = "Zero" }, want: refused("unlimitedPods", `"Zero"`, `"Unlimited"`, `"AsRequest"`)},
		{name: "an unknown missingLoad is refused", change: func(a *args) { a.MissingLoad = "Highest" }, want: refused("missingLoad", `"Highest"`, `"Requests"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := defaulted(t, "LowRiskOverCommitmentArgs").(*args)
			tt.change(a)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), a), tt.want)
		})
	}
}

func TestValidatePeaksArgs(t *testing.T) {
	type args = config.PeaksArgs
	byName := func(m config.PowerModel) func(*args) {
		return func(a *args) { a.NodePowerModel = map[string]config.PowerModel{"node-1": m} }
	}
	bySelector := func(selector map[string]string) func(*args) {
		return func(a *args) {
			a.NodePowerModels = []config.NodePowerModel{
				{PowerModel: config.PowerModel{K1: 1, K2: 0.01}},
				{NodeSelector: selector, PowerModel: config.PowerModel{K0: 1, K1: 1, K2: 0.01}},
			}
		}
	}
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint("label-", i)] = ""
	}
	for _, tt := range []struct {
		name   string
		change func(*args)
		want   []refusal
	}{
		{name: "no model is accepted, for the file has them", change: func(*args) {}},
		{name: "a model is accepted", change: byName(config.PowerModel{K0: 471.74, K1: -91.5, K2: -0.0718})},
		{name: "power that falls with load is accepted", change: byName(config.PowerModel{K0: 500, K1: -2, K2: 0.02})},
		{name: "a selector is accepted", change: bySelector(map[string]string{"node.kubernetes.io/instance-type": "m5.large", "zone": ""})},
		{name: "no selector is accepted", change: bySelector(nil)},
		{
			name:   "a model fitted to fractions is refused",
			change: byName(config.PowerModel{K0: 100, K1: 10, K2: 8}), want: refused("nodePowerModel[node-1]", "k0=100 k1=10 k2=8", "in percent, not as a fraction"),
		},
		{name: "NaN is refused", change: byName(config.PowerModel{K1: 1, K2: math.NaN()}), want: refused("nodePowerModel[node-1]", "k2=NaN", "finite")},
		{name: "infinity is refused", change: byName(config.PowerModel{K0: math.Inf(-1), K1: 1, K2: 0.01}), want: refused("nodePowerModel[node-1]", "k0=-Inf", "finite")},
		{name: "infinity is refused where it arises", change: byName(config.PowerModel{K1: 1e-300, K2: 1e9}), want: refused("nodePowerModel[node-1]", "k2=1e+09", "finite")},
		{
			name: "a model of nothing is refused, with which the node would be the best one at any load", change: byName(config.PowerModel{}),
			want: []refusal{{path: "nodePowerModel[node-1].k1", parts: []string{"Required"}}, {path: "nodePowerModel[node-1].k2", parts: []string{"Required"}}},
		},
		{name: "a model without k2 is refused", change: byName(config.PowerModel{K0: 300, K1: 1}), want: refused("nodePowerModel[node-1].k2", "Required", "k0 + k1·e^(k2·x)")},
		{
			name:   "a model of a selector without k1 is refused",
			change: func(a *args) { a.NodePowerModels = []config.NodePowerModel{{PowerModel: config.PowerModel{K2: 1}}} },
			want:   refused("nodePowerModels[0].k1", "Required"),
		},
		{
			name: "a model of a selector is checked too",
			change: func(a *args) {
				a.NodePowerModels = []config.NodePowerModel{{PowerModel: config.PowerModel{K1: 1e16, K2: 0.01}}}
			}, want: refused("nodePowerModels[0]", "k1=1e+16", "[-1e+15, 1e+15]"),
		},
		{name: "an invalid label key is refused", change: bySelector(map[string]string{"a b": "c"}), want: refused("nodePowerModels[1].nodeSelector[a b]", `"c"`, "a label that nodes can have")},
		{name: "an invalid label value is refused", change: bySelector(map[string]string{"a": "b c"}), want: refused("nodePowerModels[1].nodeSelector[a]", `"b c"`, "a label that nodes can have")},
		{name: "too many labels are refused", change: bySelector(many), want: refused("nodePowerModels[1].nodeSelector", "33 labels", "at most 32")},
		{
			name:   "too many models are refused",
			change: func(a *args) { a.NodePowerModels = make([]config.NodePowerModel, 1001) }, want: refused("nodePowerModels", "1001 models", "at most 1000"),
		},
		{name: "an unknown missingLoad is refused", change: func(a *args) { a.MissingLoad = "Highest" }, want: refused("missingLoad", `"Highest"`, `"Neutral"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := defaulted(t, "PeaksArgs").(*args)
			tt.change(a)
			checkRefusals(t, validation.ValidateArgs(field.NewPath("args"), a), tt.want)
		})
	}
	if !strings.Contains(
		validation.ValidatePowerModels(nil, map[string]config.PowerModel{"a": {K0: math.NaN(), K1: 1, K2: 1}}).Error(),
		"[a]: Invalid value",
	) {
		t.Error("the error of a file does not name the node")
	}
}
