package loadthreshold

import (
	"fmt"
	"testing"
	"unicode/utf8"
)

// FuzzAnnotation checks that a node's annotation cannot set a threshold outside of [1, 100], nor one that it does not name, that
// the line it yields can be written as an annotation again, and that an Event can show what is wrong with it.
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
		for _, base := range []line{{}, {cpu: 40}, {cpu: 100, memory: 1}} {
			got, err := base.overriddenBy(annotation)
			if err != nil {
				if got != base {
					t.Errorf("%q is refused (%v), but makes %v of %v", annotation, err, got, base)
				}
				if text := err.Error(); len(text) > longest || !utf8.ValidString(text) {
					t.Errorf("%q is refused by %d bytes of text, want at most %d of UTF-8: %q", annotation, len(text), longest, text)
				}
				continue
			}
			for _, percent := range []struct{ got, base int64 }{{got.cpu, base.cpu}, {got.memory, base.memory}} {
				if percent.got != percent.base && (percent.got < 1 || percent.got > 100) {
					t.Errorf("%q makes %v of %v", annotation, got, base)
				}
			}
			if got == (line{}) {
				t.Errorf("%q is accepted, but sets nothing", annotation)
			}
			if again, err := base.overriddenBy(got.annotation()); err != nil || again != got {
				t.Errorf("%q makes %v of %v, but %q makes %v (%v)", annotation, got, base, got.annotation(), again, err)
			}
		}
	})
}

// annotation returns an annotation that sets the thresholds of the line.
func (l line) annotation() string {
	switch {
	case l.memory == 0:
		return fmt.Sprintf("cpu=%d", l.cpu)
	case l.cpu == 0:
		return fmt.Sprintf("memory=%d", l.memory)
	}
	return fmt.Sprintf("cpu=%d,memory=%d", l.cpu, l.memory)
}
