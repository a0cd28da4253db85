package ui

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

func TestAppendPatch(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`{}`, `{}`, `{}`},
		{`{"a":1}`, `{"a":1}`, `{}`},
		{`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":3}`},
		{`{"a":1,"b":2}`, `{"b":2}`, `{"a":null}`},
		{`{"b":2}`, `{"a":"x","b":2,"c":[1,{"d":2}]}`, `{"a":"x","c":[1,{"d":2}]}`},
		{`{"a":{"b":1,"c":true},"d":-1e-7}`, `{"a":{"b":1,"c":false},"d":-1e-7}`, `{"a":{"c":false}}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"c":2,"b":1}}`, `{}`},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":7}`},
		{`{"a":7}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"a":[1,2]}`, `{"a":[2]}`, `{"a":[2]}`},
		{`{"a":"}\",\\","b":"\""}`, `{"a":"}\",\\","b":"\\"}`, `{"b":"\\"}`},
	} {
		if got := string(appendPatch([]byte("x"), []byte(tt.from), []byte(tt.to))); got != "x"+tt.want {
			t.Errorf("from %s to %s: got %s, want x%s", tt.from, tt.to, got, tt.want)
		}
	}
}

// Another program's merge of the patch has the same result, for objects of all shapes.
func TestAppendPatch_Merges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		from, err := json.Marshal(randomObject(random, 3))
		must(t, err)
		to, err := json.Marshal(randomObject(random, 3))
		must(t, err)
		patch := appendPatch(nil, from, to)
		merged, err := jsonpatch.MergePatch(from, patch)
		if err != nil || !jsonpatch.Equal(merged, to) {
			t.Fatalf("from %s to %s with %s: got %s, error %v", from, to, patch, merged, err)
		}
	}
}

// randomObject has few names, so that two objects have some in common.
func randomObject(random *rand.Rand, depth int) map[string]any {
	object := map[string]any{}
	for range random.IntN(5) {
		object[[]string{"a", "b", `"`, `c\`, "{,}", ""}[random.IntN(6)]] = randomValue(random, depth-1)
	}
	return object
}

func randomValue(random *rand.Rand, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch random.IntN(kinds) {
	case 0:
		return random.IntN(3)
	case 1:
		return []string{"", `"`, `\`, `]}`, "é\u2028<"}[random.IntN(5)]
	case 2:
		return random.IntN(2) == 0
	case 3:
		return random.NormFloat64() * 1e30
	case 4:
		return []any{randomValue(random, depth-1), randomObject(random, depth-1)}
	}
	return randomObject(random, depth)
}

// A change of any field is seen. A field that is added to the JSON must be compared too.
func TestNode_Same(t *testing.T) {
	newNode := func() *NodeRow {
		n := row("worker-1")
		n.AnnotationProblem, n.Profiles = "no number", []string{"plimsoll"}
		for _, r := range n.Resources() {
			r.Classes = []top.ClassLine{{UtilizationPercent: 1, LinePercent: new(2.0)}}
			r.AgeSeconds, r.MeasuredAt, r.MeasuredPercent, r.LinePercent = new(1.0), new(now), new(2.0), new(3.0)
		}
		return &NodeRow{Row: &n, Pool: "pool", Labels: map[string]string{"a": "b"}}
	}
	if !newNode().same(newNode()) {
		t.Error("equal nodes differ")
	}
	var change func(path string, of func(*NodeRow) reflect.Value)
	change = func(path string, of func(*NodeRow) reflect.Value) {
		changed := newNode()
		switch v := of(changed); v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(now.Add(time.Second)))
		case resource.Quantity:
			v.Set(reflect.ValueOf(resource.MustParse("77")))
		case map[string]string:
			v.Set(reflect.ValueOf(map[string]string{"a": "c"}))
		case string:
			v.SetString("changed")
		case int:
			v.SetInt(77)
		case float64:
			v.SetFloat(77)
		case bool:
			v.SetBool(!v.Bool())
		default:
			parts(v.Type(), func(name string, part func(reflect.Value) reflect.Value) {
				change(path+name, func(n *NodeRow) reflect.Value { return part(of(n)) })
			})
			return
		}
		was, err := json.Marshal(newNode())
		must(t, err)
		is, err := json.Marshal(changed)
		must(t, err)
		if newNode().same(changed) && cmp.Diff(string(was), string(is)) != "" {
			t.Errorf("a change of%s is not seen", path)
		}
	}
	change("", func(n *NodeRow) reflect.Value { return reflect.ValueOf(n).Elem() })
	for _, missing := range []func(*NodeRow){
		func(n *NodeRow) { n.CPU.LinePercent = nil }, func(n *NodeRow) { n.Profiles = nil }, func(n *NodeRow) { n.Memory.Classes = nil },
		func(n *NodeRow) { n.Labels = nil },
	} {
		changed := newNode()
		if missing(changed); newNode().same(changed) || changed.same(newNode()) {
			t.Errorf("%+v is taken to be unchanged", changed.Row)
		}
	}
}

// parts calls part with each part of values of a type.
func parts(of reflect.Type, part func(name string, part func(reflect.Value) reflect.Value)) {
	switch of.Kind() {
	case reflect.Pointer:
		part("", reflect.Value.Elem)
	case reflect.Slice:
		part("[0]", func(v reflect.Value) reflect.Value { return v.Index(0) })
	case reflect.Struct:
		for i := range of.NumField() {
			part(" "+of.Field(i).Name, func(v reflect.Value) reflect.Value { return v.Field(i) })
		}
	default:
		panic(fmt.Sprint("no test changes a ", of))
	}
}

// A node that did not change is not encoded again.
func TestState_KeepsNodes(t *testing.T) {
	first, err := (*state)(nil).next(loads(0))
	must(t, err)
	same, changed := loads(0), 0
	for _, n := range same.Nodes {
		n.Pods++
		break
	}
	second, err := first.next(same)
	must(t, err)
	for name, n := range second.nodes {
		if n != first.nodes[name] {
			changed++
		}
	}
	merged, err := jsonpatch.MergePatch(first.full(), second.delta)
	if err != nil || changed != 1 || len(second.delta) > 200 || !jsonpatch.Equal(merged, second.full()) {
		t.Errorf("%d nodes are encoded again, and the delta is %s, error %v", changed, second.delta, err)
	}
}

// Changes of a recorded snapshot, merged one by one, lead to the same JSON as encoding all of it.
func TestState_Recorded(t *testing.T) {
	read := func() *State {
		s, err := ReadFile(t.Context(), filepath.Join("testdata", "three-nodes.json"))
		must(t, err)
		return s
	}
	before, err := (*state)(nil).next(read())
	must(t, err)
	shown := before.full()
	first := slices.Sorted(maps.Keys(read().Nodes))[0]
	for name, change := range map[string]func(*State){
		"nothing":        func(*State) {},
		"load":           func(s *State) { s.Nodes[first].CPU.UtilizationPercent += 0.1 },
		"load unknown":   func(s *State) { s.Nodes[first].Memory.MeasuredPercent = nil },
		"label":          func(s *State) { s.Nodes[first].Labels = map[string]string{"new": "label"} },
		"no profiles":    func(s *State) { s.Nodes[first].Profiles = nil },
		"node gone":      func(s *State) { delete(s.Nodes, first) },
		"all nodes gone": func(s *State) { clear(s.Nodes) },
		"none waits":     func(s *State) { clear(s.Waiting) },
		"problem":        func(s *State) { s.Problems = []string{"}\\\"{"} },
		"no health":      func(s *State) { s.Health = nil },
	} {
		snapshot := read()
		change(snapshot)
		next, err := before.next(snapshot)
		must(t, err)
		shown, err = jsonpatch.MergePatch(shown, next.delta)
		must(t, err)
		want, err := output.MarshalKind(Kind, snapshot)
		must(t, err)
		if !jsonpatch.Equal(next.full(), want) {
			t.Errorf("%s: the snapshot is\n%s\nwant\n%s", name, next.full(), want)
		}
		var got map[string]any
		must(t, json.Unmarshal(shown, &got))
		if got["nodes"] == nil || len(got["nodes"].(map[string]any)) == 0 {
			delete(got, "nodes") // merging leaves an empty object, which the page takes as none
		}
		content, err := json.Marshal(got)
		must(t, err)
		if !jsonpatch.Equal(content, want) {
			t.Errorf("%s: merged\n%s\nwant\n%s", name, content, want)
		}
		before = next
	}
}
