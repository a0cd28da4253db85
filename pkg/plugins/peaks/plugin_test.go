package peaks

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// The types of columns.
type (
	points  = map[string]int64
	loadsOf = map[string]load.NodeLoad
)

const kind = "PeaksArgs"

func cpu(mean float64) load.NodeLoad { return load.NodeLoad{load.CPU: plugintest.Measurement(mean, 0)} }

// labeled is a node of 8 cores with a label.
func labeled(name, instanceType string, pods ...*corev1.Pod) fwk.NodeInfo {
	node := plugintest.Node(name, plugintest.CPU("8"), pods...)
	object := node.Node().DeepCopy()
	object.Labels = map[string]string{"type": instanceType}
	node.SetNode(object)
	return node
}

// k2 is such that e^(k2·x) doubles with every 25 percent.
const k2 = math.Ln2 / 25

func TestCost(t *testing.T) {
	for _, tc := range []struct {
		name            string
		model           config.PowerModel
		now, then, want float64
	}{
		{"power that rises faster the fuller the node is", config.PowerModel{K0: 100, K1: 10, K2: k2}, 25, 50, 20}, // 10·(2² − 2)
		{"from an idle node", config.PowerModel{K0: 100, K1: 10, K2: k2}, 0, 25, 10},
		{"up to a full node", config.PowerModel{K0: 100, K1: 10, K2: k2}, 75, 100, 80},                               // 10·(2⁴ − 2³)
		{"power that rises slower the fuller the node is", config.PowerModel{K0: 100, K1: -80, K2: -k2}, 25, 50, 20}, // −80·(1/4 − 1/2)
		{"a pod that requests nothing", config.PowerModel{K0: 100, K1: 10, K2: k2}, 50, 50, 0},
		{"beyond the capacity", config.PowerModel{K0: 100, K1: 10, K2: k2}, 90, 100.1, math.Inf(1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := cost(&tc.model, tc.now, tc.then); got != tc.want && math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("cost %v, want %v", got, tc.want)
			}
		})
	}
	check.Equal(t, "power", 140, (&config.PowerModel{K0: 100, K1: 10, K2: k2}).Power(50), cmpopts.EquateApprox(0, 1e-9))
}

func TestScore(t *testing.T) {
	byName := fmt.Sprintf("nodePowerModel: {a: {k0: 100, k1: 10, k2: %v}, b: {k0: 50, k1: 5, k2: %v}, c: {k0: 1, k1: 10, k2: %v}}\n",
		k2, k2, k2)
	assumed := st.MakePod().Name("assumed").Req(plugintest.CPU("2")).Obj()
	// All nodes have 8 cores; the pod requests 2 of them, 25 %.
	for _, tc := range []struct {
		name, args string
		load       loadsOf
		onA        []*corev1.Pod
		pod        string
		want       points
	}{
		// a: 10·(4 − 2) = 20; b: 5·(16 − 8) = 40; c: 10·(2 − 1) = 10. a: 100·(40 − 20) / (40 − 10).
		{name: "the node whose power rises least is best", args: byName, load: loadsOf{"a": cpu(0.25), "b": cpu(0.75), "c": cpu(0)}, want: points{"a": 67, "b": 0, "c": 100}},
		// a: 10·(8 − 4) = 40, as b.
		{
			name: "pods that the window does not cover yet count", args: byName, load: loadsOf{"a": cpu(0.25), "b": cpu(0.75), "c": cpu(0)},
			onA: []*corev1.Pod{assumed}, want: points{"a": 0, "b": 0, "c": 100},
		},
		// b is the most expensive of those with room: 0 too.
		{
			name: "a node that the pod takes beyond its capacity is worst", args: byName,
			load: loadsOf{"a": cpu(0.9), "b": cpu(0.75), "c": cpu(0)}, want: points{"a": 0, "b": 0, "c": 100},
		},
		// a: 10·(8 − 4) = 40, as b.
		{
			name: "nodes beyond their capacity beside equal ones", args: byName,
			load: loadsOf{"a": cpu(0.5), "b": cpu(0.75), "c": cpu(0.9)}, want: points{"a": 100, "b": 100, "c": 0},
		},
		{
			name: "a pod that requests nothing leaves all nodes alike", args: byName, load: loadsOf{"a": cpu(0.25), "b": cpu(0.75), "c": cpu(0)}, pod: "0",
			want: points{"a": 100, "b": 100, "c": 100},
		},
		{name: "a node without load gets the mean of the others", args: byName, load: loadsOf{"a": cpu(0.25), "b": cpu(0.75)}, want: points{"a": 100, "b": 0, "c": 50}},
		// a: 25 % requested, 20; b: 40; c: 10.
		{
			name: "a node without load is scored by requests, if Requests", args: byName + "missingLoad: Requests", load: loadsOf{"b": cpu(0.75), "c": cpu(0)},
			onA: []*corev1.Pod{assumed}, want: points{"a": 67, "b": 0, "c": 100},
		},
		// a: 20; b: 5·(2 − 1) = 5.
		{
			name: "a node without load is worst, if Lowest", args: byName + "missingLoad: Lowest",
			load: loadsOf{"a": cpu(0.25), "b": cpu(0)}, want: points{"a": 0, "b": 100, "c": 0},
		},
		{
			name: "a node without a model gets the mean of the others",
			args: fmt.Sprintf("nodePowerModel: {a: {k0: 100, k1: 10, k2: %v}, b: {k0: 50, k1: 5, k2: %v}}", k2, k2),
			load: loadsOf{"a": cpu(0.25), "b": cpu(0.75), "c": cpu(0)}, want: points{"a": 100, "b": 0, "c": 50},
		},
		{
			name: "a node without a model is worst, if Lowest",
			args: fmt.Sprintf("missingLoad: Lowest\nnodePowerModel: {a: {k0: 100, k1: 10, k2: %v}, b: {k0: 50, k1: 5, k2: %v}}", k2, k2),
			load: loadsOf{"a": cpu(0.25), "b": cpu(0.75), "c": cpu(0)}, want: points{"a": 100, "b": 0, "c": 0},
		},
		{
			name: "no node has a model", args: "nodePowerModel: {other: {k0: 1, k1: 1, k2: 0.1}}",
			load: loadsOf{"a": cpu(0.25), "b": cpu(0.75)}, want: points{"a": 0, "b": 0, "c": 0},
		},
		{name: "no load is known", args: byName, want: points{"a": 0, "b": 0, "c": 0}},
		// a by its name: 10; b, which is large: 40; c, by the model of all: 20. c: 100·(40 − 20) / (40 − 10).
		{
			name: "models by label, the first that selects the node",
			args: fmt.Sprintf("nodePowerModel: {a: {k0: 0, k1: 10, k2: %v}}\nnodePowerModels: [{nodeSelector: {type: large, zone: x}, k1: -1, k2: 0.01}, {nodeSelector: {type: large}, k1: 40, k2: %v}, {k1: 20, k2: %v}]", k2, k2, k2),
			load: loadsOf{"a": cpu(0), "b": cpu(0), "c": cpu(0)}, want: points{"a": 100, "b": 0, "c": 67},
		},
		// a: 20; b: −10; c: 40. a: 100·(40 − 20) / (40 + 10).
		{
			name: "power that falls with load",
			args: fmt.Sprintf("nodePowerModels: [{nodeSelector: {type: large}, k1: -10, k2: %v}, {k1: 20, k2: %v}]", k2, k2),
			load: loadsOf{"a": cpu(0), "b": cpu(0), "c": cpu(0.25)}, want: points{"a": 40, "b": 100, "c": 0},
		},
		{
			name: "costs far apart", args: "nodePowerModel: {a: {k1: 1.0e-15, k2: 0.01}, b: {k1: 1.0e+14, k2: 0.01}, c: {k1: -1.0e+14, k2: 0.01}}",
			load: loadsOf{"a": cpu(0), "b": cpu(0), "c": cpu(0)}, want: points{"a": 50, "b": 0, "c": 100},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, tc.args), tc.load)
			request := "2"
			if tc.pod != "" {
				request = tc.pod
			}
			got := plugintest.Scores(t, pl, st.MakePod().Req(plugintest.CPU(request)).Obj(), labeled("a", "small", tc.onA...),
				labeled("b", "large"), labeled("c", "small"))
			check.Equal(t, "scores", tc.want, got)
		})
	}
}

// A node without cpu is not the best because nothing changes there.
func TestScore_NoCapacity(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, "nodePowerModels: [{k1: 1, k2: 0.01}]"),
		loadsOf{"a": cpu(0.5), "b": cpu(0.5)})
	got := plugintest.Scores(t, pl, st.MakePod().Req(plugintest.CPU("1")).Obj(), plugintest.Node("a", nil),
		plugintest.Node("b", plugintest.CPU("8")))
	if want := (points{"a": 0, "b": 100}); !cmp.Equal(got, want) {
		t.Errorf("scores %v, want %v", got, want)
	}
}

// Scores follow the current labels of a node.
func TestScore_FollowsLabels(t *testing.T) {
	pl := plugintest.Build(
		t,
		Describe().New,
		plugintest.Args(t, kind,
			fmt.Sprintf("nodePowerModels: [{nodeSelector: {type: large}, k1: 40, k2: %v}, {k1: 20, k2: %v}]", k2, k2)),
		loadsOf{"a": cpu(0), "b": cpu(0)},
	)
	pod, a, b := st.MakePod().Req(plugintest.CPU("2")).Obj(), labeled("a", "small"), labeled("b", "large")
	check := func(want points) {
		t.Helper()
		check.Equal(t, "scores", want, plugintest.Scores(t, pl, pod, a, b))
	}
	check(points{"a": 100, "b": 0})
	relabeled := b.Node().DeepCopy()
	relabeled.Labels["type"] = "small"
	b.(*framework.NodeInfo).SetNode(relabeled)
	check(points{"a": 100, "b": 100})
}

func TestNew_File(t *testing.T) {
	valid := fmt.Sprintf(`{"a": {"k0": 100, "k1": 10, "k2": %v}, "b": {"k0": 50, "k1": 5, "k2": %v}}`, k2, k2)
	for _, tc := range []struct {
		name, args string
		// content is that of the file; the variable is not set if it is empty.
		content string
		wantErr []string
	}{
		{name: "models from the file", content: valid},
		{name: "the arguments' own models come first", args: fmt.Sprintf("nodePowerModel: {a: {k1: 10, k2: %v}, b: {k1: 5, k2: %v}}", k2, k2), content: "not read"},
		{name: "models by label beside the file", args: "nodePowerModels: [{k1: -1000, k2: 0.01}]", content: valid}, // by which b would be the best
		{name: "no models", wantErr: []string{"nodePowerModel: Required value", "nodePowerModels", "NODE_POWER_MODEL"}},
		{name: "no JSON", content: "a: {k0: 1}", wantErr: []string{"NODE_POWER_MODEL", "models.json", "invalid character", `want {"node-1"`}},
		{name: "an unknown field", content: `{"a": {"k0": 1, "k3": 1}}`, wantErr: []string{"NODE_POWER_MODEL", "models.json", `unknown field "k3"`, `want {"node-1"`}},
		{name: "a list", content: `[]`, wantErr: []string{"models.json", "cannot unmarshal array", `want {"node-1"`}},
		{name: "more than one value", content: valid + valid, wantErr: []string{"models.json", "more than one JSON value"}},
		{name: "no models in the file", content: "{}", wantErr: []string{"models.json", "has no model"}},
		{name: "nothing in the file", content: " ", wantErr: []string{"NODE_POWER_MODEL", "models.json"}},
		{name: "a model that is null", content: `{"a": null, "b": {"k0": 1, "k1": 1, "k2": 1}}`, wantErr: []string{"NODE_POWER_MODEL", "models.json", "[a].k1: Required value", "[a].k2: Required value"}},
		{name: "power beyond all bounds", content: `{"a": {"k0": 1, "k1": 1, "k2": 8}}`, wantErr: []string{"models.json", "[a]", "k0=1 k1=1 k2=8", "in percent"}},
		{name: "a file that is too large", content: valid + strings.Repeat(" ", maxFileBytes), wantErr: []string{"models.json", "more than 8388608 bytes"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.content != "" {
				path := check.File(t, "models.json", tc.content)
				t.Setenv(config.NodePowerModelVariable, path)
			}
			loads := plugintest.NewLoads()
			loads.Measure(loadsOf{"a": cpu(0.25), "b": cpu(0.75)}, nil)
			pl, err := Describe().New(t.Context(), plugintest.Args(t, kind, tc.args), plugintest.NewHandle(), loads.Deps())
			for _, want := range tc.wantErr {
				check.Error(t, err, want)
			}
			if len(tc.wantErr) > 0 {
				return
			}
			check.OK(t, err)
			// a: 10·(4 − 2) = 20; b: 5·(16 − 8) = 40.
			got := plugintest.Scores(t, pl.(minor.ScorePlugin), st.MakePod().Req(plugintest.CPU("2")).Obj(), labeled("a", "small"),
				labeled("b", "small"))
			if want := (points{"a": 100, "b": 0}); !cmp.Equal(got, want) {
				t.Errorf("scores %v, want %v", got, want)
			}
		})
	}
}

func TestNew_MissingFile(t *testing.T) {
	t.Setenv(config.NodePowerModelVariable, filepath.Join(t.TempDir(), "missing.json"))
	_, err := Describe().New(t.Context(), plugintest.Args(t, kind, ""), plugintest.NewHandle(), plugintest.NewLoads().Deps())
	check.Error(t, err, config.NodePowerModelVariable, "missing.json: no such file")
}

func TestExplain(t *testing.T) {
	pl := plugintest.Build(t, Describe().New,
		plugintest.Args(t, kind, fmt.Sprintf("nodePowerModel: {a: {k0: 100, k1: 10, k2: %v}}", k2)),
		loadsOf{"a": cpu(0.25), "b": cpu(0.9)})
	explain := func(name string) (float64, []string) {
		terms := pl.(*Peaks).Explain(t.Context(), framework.NewCycleState(), st.MakePod().Req(plugintest.CPU("2")).Obj(),
			plugintest.Node(name, plugintest.CPU("8"), plugintest.Running(st.MakePod().Obj(), time.Hour)))
		var list []string
		for _, term := range terms.List() {
			list = append(list, term.String())
		}
		return terms.Score(), list
	}
	if got, list := explain("a"); math.Abs(got-20) > 1e-9 || !cmp.Equal(list, []string{
		"cpu measured 25%",
		"cpu deviation 0%",
		"cpu pending 0%",
		"cpu of the pod 25%",
		"cpu utilization 50%",
		"power 120",
		"power with the pod 140",
	}) {
		t.Errorf("with a model: %v, %q", got, list)
	}
	if got, list := explain("b"); got != 0 ||
		!cmp.Equal(
			list, []string{"cpu measured 90%", "cpu deviation 0%", "cpu pending 0%", "cpu of the pod 25%", "cpu utilization 115%"},
		) {
		t.Errorf("without a model: %v, %q", got, list)
	}
}

// The cost that Score returns is the explained one, but for the last bit.
func TestScore_EncodesExplainedCost(t *testing.T) {
	pl := plugintest.Build(t, Describe().New, plugintest.Args(t, kind, fmt.Sprintf("nodePowerModels: [{k0: 100, k1: 10, k2: %v}]", k2)),
		loadsOf{"a": cpu(0.25), "b": cpu(0.5)}).(*Peaks)
	state, pod := framework.NewCycleState(), st.MakePod().Req(plugintest.CPU("2")).Obj()
	for _, name := range []string{"a", "b"} {
		node := labeled(name, "small")
		score, _ := pl.Score(t.Context(), state, pod, node)
		explained := pl.Explain(t.Context(), state, pod, node).Score()
		if got := decode(score); math.Abs(got-explained) > 1e-12 {
			t.Errorf("node %s: cost %v, explained as %v", name, got, explained)
		}
	}
}

func TestEncode(t *testing.T) {
	before := int64(-1)
	for _, cost := range []float64{
		-math.MaxFloat64, -1e15, -1.5, -1e-9, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 1e-9, 1.5, 1e15,
		math.MaxFloat64, math.Inf(1),
	} {
		code := encode(cost)
		if code < 0 || code < before {
			t.Errorf("%v is encoded as %d, want at least 0 and the %d of the cost before it", cost, code, before)
		}
		// The last of 53 bits is lost. The difference is below 2⁻⁵² of the cost, or the smallest number.
		if got := decode(code); got != cost && math.Abs(got-cost) > max(math.Abs(cost)/(1<<52), math.SmallestNonzeroFloat64) {
			t.Errorf("%v is decoded as %v", cost, got)
		}
		before = code
	}
	check.Equal(t, "-0 is decoded as", 0, decode(encode(math.Copysign(0, -1))))
}
