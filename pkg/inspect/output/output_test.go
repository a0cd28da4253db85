package output_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func written(t *testing.T, format string, result any) string {
	t.Helper()
	var b strings.Builder
	check.OK(t, output.Write(&b, format, result))
	return b.String()
}

func TestWrite_Formats(t *testing.T) {
	for format, want := range map[string]string{
		output.JSON:                        "{\n  \"apiVersion\": \"inspect.plimsoll.io/v1\",\n  \"kind\": \"WhatIf\",\n  \"changes\": [\n    \"worker-1 drained\"\n  ],\n  \"outcomes\": []\n}\n",
		output.YAML:                        "apiVersion: inspect.plimsoll.io/v1\nchanges:\n- worker-1 drained\nkind: WhatIf\noutcomes: []\n",
		"jsonpath={.changes[0]}":           "worker-1 drained",
		"go-template={{index .changes 0}}": "worker-1 drained",
	} {
		if got := written(t, format, &whatif.Report{Changes: []string{"worker-1 drained"}}); got != want {
			t.Errorf("%s: got %q, want %q", format, got, want)
		}
	}
	if err := output.Write(&strings.Builder{}, output.JSON, new(struct{})); err == nil {
		t.Error("a result without a kind is written")
	}
}

func TestWrite_Names(t *testing.T) {
	for want, result := range map[string]any{
		"node/worker-1\n": &top.Nodes{Nodes: []*top.Row{{Name: "worker-1"}}},
		"node/worker-2\n": &whatif.Report{Outcomes: []*whatif.Outcome{{Nodes: []whatif.ChangedNode{{Name: "worker-2"}}}}},
	} {
		if got := written(t, output.Names, result); got != want {
			t.Errorf("%T: %q, want %q", result, got, want)
		}
	}
}

// A list without elements is empty, in files and in the page's answers: jq '.nodes[]' fails for null.
func TestMarshal_NoNull(t *testing.T) {
	results := map[string]any{"a list in a list": &whatif.Report{Outcomes: []*whatif.Outcome{{}}}}
	for result, kind := range output.Kinds() {
		results[kind] = reflect.New(result).Interface()
	}
	results["PodLoads"], results["LastDecision"] = &top.Pods{Node: &top.Row{}}, &explain.LastDecision{Record: &pluginexplain.Record{}}
	for name, result := range results {
		content, err := output.Marshal(result)
		check.OK(t, err)
		if strings.Contains(string(content), "null") {
			t.Errorf("%s: %s", name, content)
		}
	}
}
