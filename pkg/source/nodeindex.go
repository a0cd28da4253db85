package source

import (
	"net"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NodeIndex finds Nodes by name, host name, address or ID of the AWS instance. It is made for each refresh and immutable.
// It keeps the Nodes without a copy.
type NodeIndex struct {
	byName map[string]*corev1.Node
	// byAlias holds host names, addresses and IDs in canonical form. A nil Node marks an alias of several Nodes. It matches none:
	// unknown load is better than load of the wrong Node.
	byAlias map[string]*corev1.Node
}

// awsProvider begins the provider ID of a Node on AWS. The ID ends with the instance's ID, which agents there report as the host.
const awsProvider = "aws://"

// NewNodeIndex indexes nodes by name, kubernetes.io/hostname label, addresses and AWS instance.
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
		if id := node.Spec.ProviderID; strings.HasPrefix(id, awsProvider) {
			x.addAlias(id[strings.LastIndex(id, "/")+1:], node)
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

// Match returns the Node with value as its name. Otherwise it returns the only Node with that host name, address or AWS instance.
//   - A port is ignored: "10.0.0.1:9100", "[fd00::1]:9100".
//   - IP addresses are compared by meaning, and host names without case.
//   - A value of two Nodes matches neither, unless it is the name of one.
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

// canonical returns the host of value, without its port, for comparisons.
func canonical(value string) string {
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
