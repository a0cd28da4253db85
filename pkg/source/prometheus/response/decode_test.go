package response

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(two, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"w", "i"}, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
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
		{"a refused query", `{"status":"error","errorType":"bad_data","error":"parse error"}`, "query refused (bad_data): parse error",
			nil},
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
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
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
		if _, err := Decode(strings.NewReader(text), Bounds{Series: 1 << 20}, Vector(ClearMap, func(*Series[map[string]string]) {})); err != nil {
			b.Fatal(err)
		}
	}
}
