package top

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// filter selects nodes by words, which must all match. A word is key=value for a label, @state for a state, or a part of the name.
type filter []func(*Row) bool

// newFilter returns the filter of a text with words.
func newFilter(text string) (f filter) {
	for word := range strings.FieldsSeq(text) {
		state, isState := strings.CutPrefix(word, "@")
		switch {
		case isState:
			f = append(f, func(n *Row) bool { return n.isIn(strings.ToLower(state)) })
		case strings.Contains(word, "="):
			selector, err := labels.Parse(word)
			f = append(f, func(n *Row) bool { return err == nil && selector.Matches(labels.Set(n.Labels)) })
		default:
			f = append(f, func(n *Row) bool { return strings.Contains(n.Name, word) })
		}
	}
	return f
}

func (f filter) matches(n *Row) bool {
	for _, matches := range f {
		if !matches(n) {
			return false
		}
	}
	return true
}

// isIn reports whether a resource of the node is in a state: above, fresh, expired or absent. A first part in lower case is enough.
func (n *Row) isIn(state string) bool {
	for _, r := range n.Resources() {
		if strings.HasPrefix(strings.ToLower(r.State), state) || r.AboveLine && strings.HasPrefix("above", state) {
			return true
		}
	}
	return false
}
