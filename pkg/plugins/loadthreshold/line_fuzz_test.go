package loadthreshold

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// FuzzAnnotation checks that a node's annotation sets only thresholds that it names, in [1, 100]. Its line can be written as an
// annotation again. An Event can show its error.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{
		"cpu=70", "cpu=70,memory=85", " memory = +085 , cpu=1 ", "cpu=100,memory=1", "cpu=0", "cpu=101", "cpu=-1", "cpu=70,cpu=70", "cpu", "",
		",", "cpu=70,", "gpu=70", "CPU=70", "cpu=7_0", "cpu=0x46", "cpu=9223372036854775808", "cpu=70\u00a0", "cpu=\xff", "cpu=70\x00",
		"cpu=70\n", "\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028\u2028=1",
	} {
		f.Add(seed)
	}
	const longest = 256
	f.Fuzz(func(t *testing.T, annotation string) {
		got, err := parseLine(annotation)
		if err != nil {
			if got != (line{}) {
				t.Errorf("%q is refused (%v), but states %v", annotation, err, got)
			}
			if text := err.Error(); len(text) > longest || !utf8.ValidString(text) {
				t.Errorf("%q is refused by %d bytes of text, want at most %d of UTF-8: %q", annotation, len(text), longest, text)
			}
			return
		}
		if got == (line{}) {
			t.Errorf("%q is accepted, but sets no threshold", annotation)
		}
		for _, percent := range got {
			if percent < 0 || percent > 100 {
				t.Errorf("%q states %v", annotation, got)
			}
		}
		for _, spelling := range spellings(got) {
			if again, err := parseLine(spelling); err != nil || again != got {
				t.Errorf("%q states %v, but %q states %v (%v)", annotation, got, spelling, again, err)
			}
		}
	})
}

// spellings returns annotations that set the line.
func spellings(l line) []string {
	cpu, memory := fmt.Sprintf("cpu=%d", l[load.CPU]), fmt.Sprintf("memory=%d", l[load.Memory])
	switch {
	case l[load.Memory] == 0:
		return []string{cpu}
	case l[load.CPU] == 0:
		return []string{memory}
	}
	return []string{cpu + "," + memory, memory + "," + cpu, cpu + ", " + memory, memory + ", " + cpu}
}
