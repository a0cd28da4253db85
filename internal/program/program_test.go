package program

import "testing"

func TestVersion(t *testing.T) {
	if got := Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("%q, want the linked version", got)
	}
	if Version("") == "" {
		t.Error("no version without a linked one")
	}
}
