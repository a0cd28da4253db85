package response

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

type decoded struct {
	Labels map[string]string
	Value  float64
	At     time.Time
}

func decodeAll(text string) (all []decoded, warnings []string, err error) {
	answer, err := Decode(strings.NewReader(text), Bounds{Series: 1 << 20, Signed: true}, Vector(ClearMap, func(s *Series[map[string]string]) {
		all = append(all, decoded{maps.Clone(s.Metric), s.Value.Value, s.Value.At})
	}))
	return all, answer.Warnings, err
}

func TestDecode(t *testing.T) {
	two := []decoded{
		{map[string]string{"instance": "a:1"}, 0.25, time.UnixMilli(1435781451781)},
		// The labels of one series are not those of the next.
		{map[string]string{"node": "b"}, 1, time.UnixMilli(1435781451000)},
	}
	const result = `[{"metric":{"instance":"a:1"},"value":[1435781451.781,"0.25"]}, {"value": [ 1435781451 , "1" ], ` +
		`"metric":{"node":"b"},"histogram":null}]`
	for _, tt := range []struct{ name, text string }{
		{"Prometheus", `{"status":"success","data":{"resultType":"vector","result":` + result + `},"warnings":["w"],"infos":["i"]}`},
		{"type last", `{"warnings":["w"],"infos":["i"],"data":{"result":` + result + `,"resultType":"vector"},"status":"success"}`},
		{"more keys", "\n" + `{"status":"success","isPartial":false,"data":{"resultType":"vector","stats":{"a":[1]},"result":` + result +
			`,"x":null},"stats":{"seriesFetched":"2"},"warnings":["w"],"infos":["i"]}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, warnings, err := decodeAll(tt.text)
			check.OK(t, err)
			check.Equal(t, "result", two, got)
			check.Equal(t, "warnings", []string{"w", "i"}, warnings)
		})
	}
}

// A matrix has the values of a range query. A vector is not taken for one, nor are histograms for values.
func TestDecode_Matrix(t *testing.T) {
	type point struct {
		Node  string
		Unix  int64
		Value float64
	}
	const head = `{"status":"success","data":{"resultType":`
	for _, tt := range []struct {
		name, text, wantErr string
		want                []point
	}{
		{
			"two series, and one without values",
			head + `"matrix","result":[{"metric":{"node":"a"},"values":[[60,"0.5"],[120,"1"]]},` +
				`{"metric":{},"values":[[60,"2"]]},{"metric":{"node":"b"}}]}}`,
			"", []point{{"a", 60, 0.5}, {"a", 120, 1}, {"", 60, 2}},
		},
		{"no series", head + `"matrix","result":[]}}`, "", nil},
		{"a vector", head + `"vector","result":[{"metric":{},"value":[60,"1"]}]}}`, `"vector", where a matrix is needed`, nil},
		{"histograms", head + `"matrix","result":[{"metric":{},"histograms":[[60,{}]]}]}}`, "native histograms", nil},
		{"a refused query", `{"status":"error","errorType":"bad_data","error":"parse error"}`, "query refused (bad_data): parse error", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []point
			_, err := Decode(strings.NewReader(tt.text), Bounds{Series: 10}, Matrix(ClearMap, func(s *Series[map[string]string]) {
				for _, p := range s.Values {
					got = append(got, point{s.Metric["node"], p.At.Unix(), p.Value})
				}
			}))
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			check.Equal(t, "result", tt.want, got)
		})
	}
}

func TestDecodePoint(t *testing.T) {
	for _, bad := range []string{
		`null`, `[]`, `[1700000000]`, `["1700000000","1"]`, `[1700000000,1]`, `[1700000000,"1",2]`, `[1700000000,""]`,
		`[1700000000,"1e999"]`, `[-1,"1"]`, `[0,"1"]`, `[1e30,"1"]`, `{}`, `"1"`,
	} {
		var p Point
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("%s: no error, got %v", bad, p)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	elements := make([]string, 15000)
	for i := range elements {
		elements[i] = fmt.Sprintf(`{"metric":{"instance":"10.%d.%d.%d:9100"},"value":[1700000000,"0.123456789012345"]}`, i>>16, i>>8&255,
			i&255)
	}
	text := `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(elements, ",") + `]}}`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		check.Value(Decode(strings.NewReader(text), Bounds{Series: 1 << 20}, Vector(ClearMap, func(*Series[map[string]string]) {})))(b)
	}
}

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
		check.Equal(t, "samples after decoding them once and twice (want: once)", first, second, cmpopts.EquateNaNs(),
			cmpopts.EquateEmpty())
		check.Equal(t, "warnings after decoding them once and twice (want: once)", warnings, warningsAgain, cmpopts.EquateEmpty())
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
		result = append(result, element{s.Labels, [2]any{json.Number(fmt.Sprintf("%d.%03d", millis/1000, millis%1000)), strconv.FormatFloat(s.Value, 'g', -1, 64)}})
	}
	text := check.Value(json.Marshal(map[string]any{
		"status": "success", "data": map[string]any{"resultType": "vector", "result": result}, "warnings": warnings,
	}))(t)
	return string(text)
}
