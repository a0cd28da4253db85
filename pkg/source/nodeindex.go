package source

import (
	"net"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NodeIndex finds the Node that a source means by a name, a host name or an address. It is built once for a refresh, does
// not change afterwards, and holds the Nodes it was given without copying them.
type NodeIndex struct {
	byName map[string]*corev1.Node
	// byAlias holds host names and addresses in canonical form. A nil Node marks an alias that several Nodes share: load
	// put on the wrong Node is worse than load not known, so such a value matches none.
	byAlias map[string]*corev1.Node
}

// NewNodeIndex indexes the nodes by name, by the kubernetes.io/hostname label and by all addresses of their status.
func NewNodeIndex(nodes []*corev1.Node) *NodeIndex {
	x := &NodeIndex{
		byName:  make(map[string]*corev1.Node, len(nodes)),
		byAlias: make(map[string]*corev1.Node, 2*len(nodes)),
	}
	for _, node := range nodes {
		x.byName[node.Name] = node
		x.addAlias(node.Labels[corev1.LabelHostname], node)
		for _, address := range node.Status.Addresses {
			x.addAlias(address.Address, node)
		}
	}
	return x
}

func (x *NodeIndex) addAlias(value string, node *corev1.Node) {
	alias := canonical(value)
	if alias == "" {
		return
	}
	if other, taken := x.byAlias[alias]; taken && (other == nil || other.Name != node.Name) {
		node = nil
	}
	x.byAlias[alias] = node
}

// Match returns the Node that value means: the Node of that name or else the only Node that has value as its
// kubernetes.io/hostname label or as one of its addresses. A port is ignored ("10.0.0.1:9100", "[fd00::1]:9100"), IP
// addresses are compared by what they mean, not by how they are written, and host names without regard to case. A value
// that two Nodes share matches neither, unless it is exactly the name of one.
func (x *NodeIndex) Match(value string) (*corev1.Node, bool) {
	if node, ok := x.byName[value]; ok {
		return node, true
	}
	host := canonical(value)
	if node, ok := x.byName[host]; ok {
		return node, true
	}
	node := x.byAlias[host]
	return node, node != nil
}

// canonical strips the port and brings what is left into the one form that it is compared in.
func canonical(value string) string {
	// Most values are an address or a name with a port; of those with several colons and no brackets all are IPv6.
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
