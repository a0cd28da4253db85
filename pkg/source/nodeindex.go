package source

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// NodeIndex finds Nodes by name, host name, address or AWS instance ID. It is immutable, and built for each refresh.
type NodeIndex struct {
	// byName and byAlias hold positions. Aliases are host names, addresses and IDs in canonical form. An alias of several Nodes is
	// that of the only one that is ready. Otherwise it is ambiguous and matches none: unknown load is better than load of the wrong
	// Node.
	byName, byAlias map[string]int
	ready           map[string]bool
	nodes           []*corev1.Node
	replaced        []Replaced
}

// Replaced is a Node that is not ready, and the ready one that has its address, host name or instance. These match the ready one.
type Replaced struct{ Node, Address, By string }

// Reason says why the Node has no load.
func (r Replaced) Reason() string {
	return fmt.Sprintf("not ready, and has the address %s of %s, which is", text.Excerpt(r.Address), r.By)
}

func (r Replaced) String() string { return r.Node + " is " + r.Reason() }

const ambiguous = -1

// awsProvider is the prefix of a provider ID on AWS. The provider ID ends with the instance ID, which agents report as the host.
const awsProvider = "aws://"

// NewNodeIndex indexes nodes by name, kubernetes.io/hostname label, addresses and AWS instance.
func NewNodeIndex(nodes []*corev1.Node) *NodeIndex {
	x := &NodeIndex{
		byName: make(map[string]int, len(nodes)), byAlias: make(map[string]int, 2*len(nodes)), ready: make(map[string]bool, 2*len(nodes)),
		nodes: nodes,
	}
	ready := make([]bool, len(nodes))
	for i, node := range nodes {
		x.byName[node.Name] = i
		ready[i] = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	for _, pass := range []bool{true, false} { // ready Nodes first
		for i, node := range nodes {
			if ready[i] == pass {
				x.addAliases(node, i, pass)
			}
		}
	}
	return x
}

func (x *NodeIndex) addAliases(node *corev1.Node, position int, ready bool) {
	x.addAlias(node.Labels[corev1.LabelHostname], position, ready)
	for _, address := range node.Status.Addresses {
		external := strings.HasPrefix(string(address.Type), "External") // several Nodes may be behind one
		x.addAlias(address.Address, position, ready || external)
	}
	if id := node.Spec.ProviderID; strings.HasPrefix(id, awsProvider) {
		x.addAlias(id[strings.LastIndex(id, "/")+1:], position, ready)
	}
}

// addAlias must be called for ready Nodes first.
func (x *NodeIndex) addAlias(value string, position int, ready bool) {
	alias := HostOf(value)
	other, taken := x.byAlias[alias]
	switch {
	case alias == "" || other == position && taken:
		return
	case taken && x.ready[alias] && !ready:
		if other != ambiguous {
			x.replaced = append(x.replaced, Replaced{x.nodes[position].Name, alias, x.nodes[other].Name})
		}
		return
	case taken:
		position = ambiguous
	}
	x.byAlias[alias], x.ready[alias] = position, ready
}

// Replaced returns the Nodes with an alias that matches another Node, once for each alias.
func (x *NodeIndex) Replaced() []Replaced { return x.replaced }

// Match returns the position of the Node with value as its name. Otherwise it returns that of the only Node with that host name,
// address or AWS instance.
//   - A port is ignored: "10.0.0.1:9100", "[fd00::1]:9100".
//   - IP addresses are compared by meaning, and host names without case.
//   - A value of two Nodes matches neither, unless it is the name of one, or one alone is ready.
func (x *NodeIndex) Match(value string) (position int, ok bool) {
	if position, ok := x.byName[value]; ok {
		return position, true
	}
	host := HostOf(value)
	if position, ok := x.byName[host]; ok {
		return position, true
	}
	position, ok = x.byAlias[host]
	return position, ok && position != ambiguous
}

// HostOf returns the host of an address with or without a port, for comparisons.
func HostOf(value string) string {
	// Most values are an address or a name with a port. A value with several colons and no brackets is an IPv6 address.
	host := value
	switch strings.Count(value, ":") {
	case 0:
	case 1:
		host, _, _ = strings.Cut(value, ":")
	default:
		if h, _, err := net.SplitHostPort(value); err == nil {
			host = h
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(host)
}
