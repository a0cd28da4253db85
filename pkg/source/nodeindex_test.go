package source

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name, hostname string, addresses ...corev1.NodeAddress) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: addresses}}
	if hostname != "" {
		n.Labels = map[string]string{corev1.LabelHostname: hostname}
	}
	return n
}

func address(kind corev1.NodeAddressType, value string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: kind, Address: value}
}

func instance(name, providerID string) *corev1.Node {
	n := node(name, "")
	n.Spec.ProviderID = providerID
	return n
}

func TestNodeIndex_Match(t *testing.T) {
	nodes := []*corev1.Node{
		instance("ip-10-0-4-1.ec2.internal", "aws:///us-east-1a/i-0abc"),
		instance("aks-0", "azure:///subscriptions/s/virtualMachineScaleSets/aks/virtualMachines/7"),
		node("worker-1", "host-1",
			address(corev1.NodeInternalIP, "10.0.0.1"),
			address(corev1.NodeInternalIP, "fd00::1"),
			address(corev1.NodeExternalIP, "198.51.100.1"),
			address(corev1.NodeHostName, "worker-1"),
			address(corev1.NodeInternalDNS, "worker-1.internal"),
			address(corev1.NodeExternalDNS, "Worker-1.Example.org")),
		// The external address is shared with worker-1, as behind one NAT gateway.
		node("worker-2", "host-2", address(corev1.NodeInternalIP, "10.0.0.2"), address(corev1.NodeExternalIP, "198.51.100.1")),
		// Three nodes that were cloned with one host name.
		node("clone-1", "clone", address(corev1.NodeInternalIP, "10.0.1.1")),
		node("clone-2", "clone", address(corev1.NodeInternalIP, "10.0.1.2")),
		node("clone-3", "clone", address(corev1.NodeInternalIP, "10.0.1.3")),
		// The host name of one node is the name of another.
		node("db", "db-0"),
		node("db-0", "db-1"),
		// A node that is named by its address, while another still has that address.
		node("10.0.2.1", "", address(corev1.NodeInternalIP, "10.0.2.1")),
		node("stale", "", address(corev1.NodeInternalIP, "10.0.2.1"), address(corev1.NodeInternalIP, "")),
		// The host name of one is the address of another.
		node("mixed-1", "shared.example.org"),
		node("mixed-2", "", address(corev1.NodeInternalDNS, "shared.example.org")),
		node("win-1", "WIN-ABC"),
		// No API server accepts this name, but other callers may use it.
		node("Odd", ""),
		node("mapped", "", address(corev1.NodeInternalIP, "::ffff:10.0.3.1")),
		node("long", "", address(corev1.NodeInternalIP, "FD00:0000:0000:0000:0000:0000:0000:00AB")),
	}
	index := NewNodeIndex(nodes)
	for _, tt := range []struct{ value, want string }{
		{"worker-1", "worker-1"},
		{"worker-1:9100", "worker-1"},
		{"host-1", "worker-1"},
		{"host-1:10250", "worker-1"},
		{"10.0.0.1", "worker-1"},
		{"10.0.0.1:9100", "worker-1"},
		{"fd00::1", "worker-1"},
		{"[fd00::1]", "worker-1"},
		{"[fd00::1]:9100", "worker-1"},
		{"[FD00:0:0:0:0:0:0:1]:9100", "worker-1"},
		{"worker-1.internal:9100", "worker-1"},
		{"worker-1.example.org", "worker-1"},
		{"WORKER-1", "worker-1"},
		{"10.0.0.2:9100", "worker-2"},

		{"i-0abc", "ip-10-0-4-1.ec2.internal"},
		{"7", ""}, // a number in a scale set is no host

		{"198.51.100.1", ""},
		{"198.51.100.1:9100", ""},
		{"clone", ""},
		{"10.0.1.3", "clone-3"},
		{"shared.example.org", ""},

		{"db-0", "db-0"},
		{"db-0:9100", "db-0"},
		{"db-1", "db-0"},
		{"10.0.2.1", "10.0.2.1"},
		{"10.0.2.1:9100", "10.0.2.1"},

		{"Odd", "Odd"},
		{"win-abc", "win-1"},
		{"WIN-ABC:9182", "win-1"},
		{"10.0.3.1:9100", "mapped"},
		{"fd00::ab", "long"},

		// Without brackets this is an address of its own, not fd00::1 and a port.
		{"fd00::1:9100", ""},
		{"worker", ""},
		{"worker-10", ""},
		{"", ""},
		{":9100", ""},
		{"[]", ""},
		{"a:b:c", ""},
	} {
		t.Run(tt.value, func(t *testing.T) {
			got, ok := index.Match(tt.value)
			if ok != (tt.want != "") {
				t.Fatalf("Match(%q) matched: %t, want %q", tt.value, ok, tt.want)
			}
			if ok && nodes[got].Name != tt.want {
				t.Errorf("Match(%q) = %q, want %q", tt.value, nodes[got].Name, tt.want)
			}
		})
	}
}

func TestNodeIndex_Empty(t *testing.T) {
	if got, ok := NewNodeIndex(nil).Match("worker-1"); ok {
		t.Errorf("matched %d", got)
	}
}

// An address that a new Node has taken over from one that is gone is the new one's.
func TestNodeIndex_ReadyNodeWins(t *testing.T) {
	ready := func(name, hostname string, addresses ...corev1.NodeAddress) *corev1.Node {
		n := node(name, hostname, addresses...)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	for _, nodes := range [][]*corev1.Node{
		{node("gone", "10.0.0.1"), ready("new", "10.0.0.1"), node("older", "10.0.0.1")}, {ready("new", "10.0.0.1"), node("gone", "10.0.0.1")},
	} {
		index := NewNodeIndex(nodes)
		if i, ok := index.Match("10.0.0.1:9100"); !ok || nodes[i].Name != "new" {
			t.Errorf("matches %d (%v), want the ready Node", i, ok)
		}
		if replaced := index.Replaced(); len(replaced) != len(nodes)-1 || slices.ContainsFunc(replaced, func(r Replaced) bool {
			return r.Address != "10.0.0.1" || r.By != "new" || r.Node == "new"
		}) {
			t.Errorf("replaced %v, want each other Node", replaced)
		}
	}
	// Nodes behind one public address do not replace each other.
	outside := address(corev1.NodeExternalIP, "203.0.113.1")
	index := NewNodeIndex([]*corev1.Node{ready("up", "up", outside), node("down", "down", outside)})
	if i, ok := index.Match("203.0.113.1"); ok || len(index.Replaced()) > 0 {
		t.Errorf("matches %d (%v), replaced %v; want none", i, ok, index.Replaced())
	}
	both := []*corev1.Node{ready("a", "10.0.0.1"), ready("b", "10.0.0.1"), node("gone", "10.0.0.1")}
	if i, ok := NewNodeIndex(both).Match("10.0.0.1"); ok {
		t.Errorf("matches %d, want none of two ready Nodes", i)
	}
	if replaced := NewNodeIndex(both).Replaced(); len(replaced) > 0 {
		t.Errorf("replaced %v, though none matches", replaced)
	}
}
