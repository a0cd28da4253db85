package cluster

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCommand(t *testing.T) {
	all := Chosen{
		"kubeconfig": {"k"}, "context": {"a"}, "cluster": {"c"}, "server": {"https://b"}, "tls-server-name": {"s"}, "certificate-authority": {"my ca"},
		"insecure-skip-tls-verify": {"true"}, "user": {"u"}, "client-certificate": {"crt"}, "client-key": {"my key"},
		"as": {"jane doe"}, "as-uid": {"7"}, "as-group": {"ops", "on call"},
	}
	for _, tt := range []struct {
		name    string
		chosen  Chosen
		command Command
		want    string
	}{
		{"nothing", Chosen{}, Kubectl("get", "nodes"), "kubectl get nodes"},
		{"no command", Chosen{"context": {"a"}}, "", ""},
		{"a context", Chosen{"context": {"a"}}, Kubectl("get", "nodes"), "kubectl --context a get nodes"},
		{"both, quoted", Chosen{"kubeconfig": {"my file"}, "context": {"a"}}, Kubectl("get", "nodes"),
			"kubectl --kubeconfig 'my file' --context a get nodes"},
		{"a command in a pod", Chosen{"context": {"a"}}, Kubectl("-n", "s", "exec", "deploy/p", "-c", "c", "--", "kubectl-plimsoll", "doctor"),
			"kubectl --context a -n s exec deploy/p -c c -- kubectl-plimsoll doctor"},
		{"a plugin, whose flags follow its name", Chosen{"context": {"a"}}, Plugin("top", "--config", "f"),
			"kubectl plimsoll top --context a --config f"},
		{"Helm", Chosen{"kubeconfig": {"k"}, "context": {"a"}}, Helm("upgrade", "p", "oci://x", "--set", "a=b"),
			"helm --kubeconfig k --kube-context a upgrade p oci://x --set a=b"},
		{"all", all, Kubectl("get", "nodes"), "kubectl --kubeconfig k --context a --cluster c --server https://b --tls-server-name s " +
			"--certificate-authority 'my ca' --insecure-skip-tls-verify=true --user u --client-certificate crt --client-key 'my key' " +
			"--as 'jane doe' --as-uid 7 --as-group ops --as-group 'on call' get nodes"},
		{"Helm with all", all, Helm("list"), "helm --kubeconfig k --kube-context a --kube-as-user 'jane doe' list"},
		{"a grant, which the impersonated user cannot make", all, Granting("apply", "-f", "FILE"), "kubectl --kubeconfig k --context a " +
			"--cluster c --server https://b --tls-server-name s --certificate-authority 'my ca' --insecure-skip-tls-verify=true --user u " +
			"--client-certificate crt --client-key 'my key' apply -f FILE"},
		{"several", Chosen{"context": {"a"}}, Kubectl("get", "a") + "; " + Kubectl("get", "b") + " && " +
			Kubectl("logs", "c") + " | " + Call("grep", "x y"),
			"kubectl --context a get a; kubectl --context a get b && kubectl --context a logs c | grep 'x y'"},
		{"names that look like commands", Chosen{"context": {"a"}}, Kubectl("get", "x; kubectl y", "it's", "--;ls=1", "--f=a b", ""),
			`kubectl --context a get 'x; kubectl y' 'it'\''s' '--;ls'=1 --f='a b' ''`},
		{"a JSONPath", Chosen{}, Kubectl("get", "node", "n", "-o", "jsonpath={.status}"), "kubectl get node n -o jsonpath='{.status}'"},
		{"another program", Chosen{"context": {"a"}}, Call("curl", "-sS", "http://p/?query=1"), "curl -sS 'http://p/?query=1'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "For", tt.want, tt.command.For(tt.chosen))
		})
	}
}
