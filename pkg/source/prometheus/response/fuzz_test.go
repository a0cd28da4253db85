package response

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzResponse checks that a decoded response is JSON, has valid times, and survives encode.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"w1:9100"},"value":[1700000000.781,"0.5"]}` +
			`,{"metric":{"instance":"w2"},"value":[1700000000,"NaN"]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1.5,"+Inf"]}]},` +
			`"warnings":["a"]}`,
		`{"data":{"result":[{"metric":{},"value":[1,"1"]}],"resultType":"vector"},"status":"success"}`,
		`{"data":{"result":[{"value":[1,"1"]}],"resultType":"vector","result":[{"metric":null,"value":[2,"-0x1p-2"]}]},` +
			`"status":"success"}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"\ud800\u0000\n"},"value":[99999999999,"1e-324"]}]}}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]}]}}`,
		`{"status":"error","errorType":"bad_data","error":"parse error"}`, `{"status":"success","data":null}`, `{`, `[]`, `null`, ``,
		`{"data":{"result":`, `{"data":{"result":null,"resultType":"vector"},"status":"success"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, warnings, err := decodeAll(text)
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is not JSON, but was decoded", text)
		}
		for _, s := range first {
			if s.At.Unix() < 0 || s.At.Year() > 5200 {
				t.Fatalf("%q was decoded to a sample of %s", text, s.At)
			}
			if s.At.UnixMilli() == 0 {
				return // a time below half a millisecond is written as zero, which is no time
			}
		}
		encoded := encode(t, first, warnings)
		second, warningsAgain, err := decodeAll(encoded)
		if err != nil {
			t.Fatalf("%s was written for %q, and not decoded: %v", encoded, text, err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("samples after decoding them once and twice (-once +twice):\n%s", diff)
		}
		if diff := cmp.Diff(warnings, warningsAgain, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("warnings after decoding them once and twice (-once +twice):\n%s", diff)
		}
	})
}

// encode writes the response of a Prometheus.
func encode(t *testing.T, samples []decoded, warnings []string) string {
	t.Helper()
	type element struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	result := []element{}
	for _, s := range samples {
		millis := s.At.UnixMilli()
		result = append(result, element{s.Labels, [2]any{
			json.Number(fmt.Sprintf("%d.%03d", millis/1000, millis%1000)), strconv.FormatFloat(s.Value, 'g', -1, 64),
		}})
	}
	text, err := json.Marshal(map[string]any{
		"status": "success", "data": map[string]any{"resultType": "vector", "result": result}, "warnings": warnings,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
