package ui

import (
	"bytes"
	"iter"
)

// appendPatch appends the JSON merge patch (RFC 7386) from one object to another. Both must be as json.Marshal writes them. It
// compares bytes: to decode all nodes at each refresh would cost more than all else.
func appendPatch(b, from, to []byte) []byte {
	var space [24]member // as many as nodes have, so that nothing is allocated
	old := space[:0]
	for m := range members(from) {
		old = append(old, m)
	}
	b = append(b, '{')
	empty := len(b)
	add := func(key []byte) {
		if len(b) > empty {
			b = append(b, ',')
		}
		b = append(append(b, key...), ':')
	}
	next := 0 // both objects usually have their members in one order
	for m := range members(to) {
		i := indexOf(old, m.key, next)
		if i < 0 {
			add(m.key)
			b = append(b, m.value...)
			continue
		}
		old[i].kept, next = true, i+1
		was, unchanged := old[i].value, len(b)
		switch {
		case bytes.Equal(was, m.value):
		case was[0] == '{' && m.value[0] == '{':
			add(m.key)
			nested := len(b)
			if b = appendPatch(b, was, m.value); len(b) == nested+len("{}") {
				b = b[:unchanged]
			}
		default:
			add(m.key)
			b = append(b, m.value...)
		}
	}
	for i := range old {
		if !old[i].kept {
			add(old[i].key)
			b = append(b, "null"...)
		}
	}
	return append(b, '}')
}

// member is a member of a JSON object. The key has its quotes.
type member struct {
	key, value []byte
	// kept reports whether the other object has the key too.
	kept bool
}

// indexOf returns the index of the member with the key, or -1. It looks from an index on, and then before it.
func indexOf(all []member, key []byte, from int) int {
	for n := range all {
		if i := (from + n) % len(all); bytes.Equal(all[i].key, key) {
			return i
		}
	}
	return -1
}

// members returns the members of a JSON object without spaces.
func members(object []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		for rest := object[1:]; rest[0] != '}'; {
			key := valueLen(rest)
			value := key + len(":")
			end := value + valueLen(rest[value:])
			if !yield(member{key: rest[:key], value: rest[value:end]}) {
				return
			}
			if rest = rest[end:]; rest[0] == ',' {
				rest = rest[1:]
			}
		}
	}
}

// valueLen returns the length of the JSON value that b begins with.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 || !isEnd(b, i+1) {
				continue // within an array or object, or a number or word
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// isEnd reports whether a number or word before an index ends there.
func isEnd(b []byte, i int) bool { return i == len(b) || bytes.IndexByte([]byte(",}]"), b[i]) >= 0 }
