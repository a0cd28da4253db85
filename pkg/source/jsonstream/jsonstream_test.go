package jsonstream

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// read reads a list of numbers and the numbers in objects of it, and skips the rest.
func read(dec *Decoder) (numbers []int, err error) {
	number := func() error {
		var n int
		err := dec.Decode(&n)
		numbers = append(numbers, n)
		return err
	}
	err = dec.Object(func(key string) error {
		switch key {
		case "list":
			return dec.Array(number)
		case "object":
			return dec.Object(func(string) error { return number() })
		}
		return dec.Skip()
	})
	if err != nil {
		return nil, err
	}
	return numbers, dec.End()
}

func TestDecoder(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []int
		wantErr    string
	}{
		{"arrays and objects", `{"list":[1,2],"object":{"a":3,"b":4}}`, []int{1, 2, 3, 4}, ""},
		{"white space", " {\n\"list\" : [ 1 , 2 ] }\n", []int{1, 2}, ""},
		{"unknown keys are skipped", `{"x":[[{"list":[9]}]],"list":[1],"y":"}","z":null}`, []int{1}, ""},
		{"null is empty", `{"list":null,"object":null}`, nil, ""},
		{"null alone", `null`, nil, ""},
		{"another kind of value for an array", `{"list":{}}`, nil, `"{" where an array is needed`},
		{"another kind of value for an object", `{"object":"x"}`, nil, "a string where an object is needed"},
		{"another kind of value for a number", `{"list":["x"]}`, nil, "cannot unmarshal string"},
		{"nothing", ``, nil, "unexpected EOF"},
		{"a cut object", `{"list":[1]`, nil, "unexpected EOF"},
		{"a cut array", `{"list":[1,`, nil, "unexpected EOF"},
		{"a cut value", `{"x":"`, nil, "unexpected EOF"},
		{"more behind the end", `{} {}`, nil, "more follows the end"},
		{"what is not JSON", `<html>`, nil, "invalid character '<'"},
		{"what is skipped is not JSON", `{"x":{]}`, nil, "invalid character ']'"},
		{"a mismatch of brackets", `{"list":[1}`, nil, "invalid character '}'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(NewDecoder(iotest.OneByteReader(strings.NewReader(tt.text)), 100))
			if tt.wantErr != "" {
				check.Error(t, err, tt.wantErr)
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestDecoder_MaxElements(t *testing.T) {
	text := `{"list":[1,2],"x":[0,0,0,0]}` // two keys and two numbers; what is skipped does not count
	if _, err := read(NewDecoder(strings.NewReader(text), 4)); err != nil {
		t.Errorf("as many elements as allowed: %v", err)
	}
	_, err := read(NewDecoder(strings.NewReader(text), 3))
	if tooMany, ok := errors.AsType[*TooManyError](err); !ok || tooMany.Max != 3 {
		t.Errorf("one more: %v", err)
	}
}

func TestDecoder_ReadError(t *testing.T) {
	want := errors.New("connection reset")
	_, err := read(NewDecoder(io.MultiReader(strings.NewReader(`{"list":[1,`), iotest.ErrReader(want)), 100))
	if failed, ok := errors.AsType[*ReadError](err); !ok || !errors.Is(failed.Unwrap(), want) {
		t.Errorf("error %v, want a ReadError of %v", err, want)
	}
}

// endless repeats a text.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

func TestDecoder_EndlessInput(t *testing.T) {
	for _, tt := range []struct{ name, head, text string }{
		{"a string", `{"x":"`, "x"},
		{"a string that is a key", `{"`, "x"},
		{"a string in a list", `{"list":["`, "x"},
		{"a number", `{"list":[`, "9"},
		{"white space", `{`, " "},
		{"white space before all", ``, " "},
		{"a skipped list", `{"x":[`, "1,"},
		{"a skipped object", `{"x":{`, `"a":1,`},
		{"deep nesting", `{"x":`, "["},
		{"deep nesting of objects", `{"x":`, `{"a":`},
		{"a list", `{"list":[`, "1,"},
		{"an object", `{"object":{`, `"a":1,`},
		{"unknown keys", `{`, `"a":1,`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(NewDecoder(io.MultiReader(strings.NewReader(tt.head), &endless{text: tt.text}), 1000))
			runtime.ReadMemStats(&after)
			check.Error(t, err)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16*MaxValueBytes {
				t.Errorf("%d bytes allocated", allocated)
			}
		})
	}
}

func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{`{"list":[1,2],"object":{"a":3}}`, `{"x":[[{}]],"list":null}`, `null`, `{`, `{"list":[1}`, `{} {}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := read(NewDecoder(strings.NewReader(text), 1000)); err == nil && !json.Valid([]byte(text)) {
			t.Errorf("took what is not JSON: %q", text)
		}
	})
}
