//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36

package scheme

import kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"

// postFilters returns the extension points for pods, and for pod groups, that do not fit.
func postFilters(plugins *kubeschedulerconfigv1.Plugins) []*kubeschedulerconfigv1.PluginSet {
	return []*kubeschedulerconfigv1.PluginSet{&plugins.PostFilter, &plugins.PodGroupPostFilter}
}
