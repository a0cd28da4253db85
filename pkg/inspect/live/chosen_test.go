package live

import "testing"

func TestChosen_Command(t *testing.T) {
	for _, tt := range []struct {
		name          string
		chosen        Chosen
		command, want string
	}{
		{"nothing", Chosen{}, "kubectl get nodes", "kubectl get nodes"},
		{"no command", Chosen{Context: "a"}, "", ""},
		{"a context", Chosen{Context: "a"}, "kubectl get nodes", "kubectl --context a get nodes"},
		{"both, quoted", Chosen{Kubeconfig: "my file", Context: "a"}, "kubectl get nodes",
			"kubectl --kubeconfig 'my file' --context a get nodes"},
		{"a command in a pod", Chosen{Context: "a"}, "kubectl -n s exec deploy/p -c c -- kubectl-plimsoll doctor",
			"kubectl --context a -n s exec deploy/p -c c -- kubectl-plimsoll doctor"},
		{"a plugin, whose flags follow its name", Chosen{Context: "a"}, "kubectl plimsoll top --config f",
			"kubectl plimsoll top --context a --config f"},
		{"Helm", Chosen{Kubeconfig: "k", Context: "a"}, "helm upgrade p oci://x --set a=b",
			"helm --kubeconfig k --kube-context a upgrade p oci://x --set a=b"},
		{"all", Chosen{Cluster: "c", Server: "https://b", User: "u", As: "jane doe"}, "kubectl get nodes",
			"kubectl --cluster c --server https://b --user u --as 'jane doe' get nodes"},
		{"all of Helm's", Chosen{Cluster: "c", Server: "https://b", User: "u", As: "jane"}, "helm list",
			"helm --kube-apiserver https://b --kube-as-user jane list"},
		{"several", Chosen{Context: "a"}, "kubectl get a; kubectl get b && kubectl logs c",
			"kubectl --context a get a; kubectl --context a get b && kubectl --context a logs c"},
		{"a name that looks like a command", Chosen{Context: "a"}, `kubectl get 'x; kubectl y' 'it'\''s; kubectl z'`,
			`kubectl --context a get 'x; kubectl y' 'it'\''s; kubectl z'`},
		{"another program", Chosen{Context: "a"}, "curl -sS 'http://p/?query=1'", "curl -sS 'http://p/?query=1'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.chosen.Command(tt.command); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
