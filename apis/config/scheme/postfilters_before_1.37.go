//go:build kubernetes_1_34 || kubernetes_1_35 || kubernetes_1_36

package scheme

import kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"

// postFilters returns the extension point for pods that do not fit. Before Kubernetes 1.37, pod groups have none.
func postFilters(plugins *kubeschedulerconfigv1.Plugins) []*kubeschedulerconfigv1.PluginSet {
	return []*kubeschedulerconfigv1.PluginSet{&plugins.PostFilter}
}
