package server

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFairSet(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::3")
	set := newFairSet[string](4)
	expect := func(step string, want map[netip.Addr][]string) {
		t.Helper()
		if diff := cmp.Diff(want, set.items, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}

	for i, item := range []string{"a1", "a2", "a3"} {
		if half := set.halfFull(); half != (i == 2) {
			t.Errorf("half of 4 items are reached at %d: %t", i, half)
		}
		if _, full, _ := set.add(a, item, false); full {
			t.Errorf("full before %s", item)
		}
	}
	if _, full, added := set.add(b, "b1", true); full || !added {
		t.Errorf("add of the last item: full %t, added %t", full, added)
	}
	if replaced, full, _ := set.add(b, "b2", false); replaced != "a1" || !full {
		t.Errorf("add replaced %q, full %t, want the oldest of the address with most", replaced, full)
	}
	expect("two of each address", map[netip.Addr][]string{a: {"a2", "a3"}, b: {"b1", "b2"}})
	if _, full, added := set.add(b, "b3", true); !full || added {
		t.Errorf("add of a third item where all addresses have two: full %t, added %t", full, added)
	}

	set.remove(b, "b1")
	set.remove(b, "b1") // again
	set.remove(a, "a1") // after it was replaced
	set.add(a, "a4", false)
	expect("one removed, one added", map[netip.Addr][]string{a: {"a2", "a3", "a4"}, b: {"b2"}})
	if _, full, added := set.add(a, "a5", true); !full || added {
		t.Errorf("add for the address with most: full %t, added %t", full, added)
	}
	if replaced, full, added := set.add(c, "c1", true); replaced != "a2" || !full || !added {
		t.Errorf("add for an address without items replaced %q, full %t, added %t", replaced, full, added)
	}
	if replaced, full, _ := set.add(a, "a5", false); replaced != "a3" || !full {
		t.Errorf("add replaced %q, full %t, want the oldest of the same address", replaced, full)
	}
	expect("at the end", map[netip.Addr][]string{a: {"a4", "a5"}, b: {"b2"}, c: {"c1"}})
	if _, _, added := set.add(b, "b3", true); added {
		t.Error("add gave an address its second item, and left another address one of two")
	}

	set.remove(c, "c1")
	set.remove(b, "b2")
	set.remove(a, "a4")
	expect("addresses without items are forgotten", map[netip.Addr][]string{a: {"a5"}})
	if set.halfFull() {
		t.Error("one item of four is half")
	}
}
