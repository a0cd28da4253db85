package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance"
)

// rebalancerFacts are the facts of Plimsoll's rebalancer, and of other programs that evict pods.
type rebalancerFacts struct {
	// name is the rebalancer's pod; empty if none is installed. configuration is the default if it could not be read.
	name          string
	configuration *rebalancer.Configuration
	budgets       []*policyv1.PodDisruptionBudget
	deschedulers  []descheduler
	// spec and namespace are the pod's.
	spec      *corev1.PodSpec
	namespace string
	// permissions are those of the pod's account. excess are granted permissions that only other modes need.
	permissions permissionFacts
	excess      []cluster.Permission
	// configurationErr says why the configuration could not be read.
	configurationErr error
	// cronJobsErr says why CronJobs could not be listed.
	cronJobsErr error
}

// descheduler is another program that evicts pods.
type descheduler struct {
	name string
	// configMap holds its policy, in namespace. rules are the loadRules that the policy enables.
	namespace, configMap string
	rules                []string
	err                  error
}

// loadRules are plugins, and a profile, of deschedulers. They move pods by load.
var loadRules = []string{"LowNodeUtilization", "LowNodeLoad", "KubeVirtRelieveAndMigrate"}

// deschedulerPolicy has the fields that the descheduler's policy and Koordinator's have in common.
type deschedulerPolicy struct {
	Profiles []struct {
		Name    string `json:"name"`
		Plugins struct {
			Balance struct {
				// Enabled has names, or objects with a name.
				Enabled []any `json:"enabled"`
			} `json:"balance"`
		} `json:"plugins"`
	} `json:"profiles"`
}

// rulesOf returns the loadRules that a policy enables.
func rulesOf(content string) (rules []string) {
	var policy deschedulerPolicy
	if yaml.Unmarshal([]byte(content), &policy) != nil {
		return nil // the ConfigMap's other keys are no policies
	}
	for _, p := range policy.Profiles {
		names := []any{strings.TrimPrefix(p.Name, "Dev")} // OpenShift's profiles begin as developer previews
		for _, plugin := range p.Plugins.Balance.Enabled {
			if object, ok := plugin.(map[string]any); ok {
				plugin = object["name"]
			}
			names = append(names, plugin)
		}
		for _, rule := range loadRules {
			if slices.Contains(names, any(rule)) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// runsProgram reports whether a container's command has one of the file names.
func runsProgram(spec *corev1.PodSpec, names ...string) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return len(c.Command) > 0 && slices.Contains(names, path.Base(c.Command[0]))
	})
}

// maxDeschedulers bounds the policies that are read: anyone who can create pods can name a program like a descheduler.
const maxDeschedulers = 20

// readRebalancers reads the rebalancer, which is in the scheduler's namespace if that is known. Only if there is one, it reads
// deschedulers too.
func (g *gatherer) readRebalancers(ctx context.Context) {
	w := g.workload()
	i := slices.IndexFunc(g.pods, func(pod *corev1.Pod) bool {
		return (w == nil || pod.Namespace == w.Namespace) && runsProgram(&pod.Spec, cluster.RebalancerProgram)
	})
	if i < 0 {
		return
	}
	g.rebalancer.name, g.rebalancer.configuration = g.pods[i].Namespace+"/"+g.pods[i].Name, rebalancer.Default()
	g.rebalancer.namespace, g.rebalancer.spec = g.pods[i].Namespace, &g.pods[i].Spec
	found := false
	err := g.eachConfigMap(ctx, g.pods[i].Namespace, &g.pods[i].Spec, func(_, content string) {
		if c, err := rebalancer.Decode([]byte(content)); err == nil {
			g.rebalancer.configuration, found = c, true
		}
	})
	if !found {
		g.rebalancer.configurationErr = err
	}
	for _, pod := range g.pods {
		if metav1.GetControllerOfNoCopy(pod) == nil || metav1.GetControllerOfNoCopy(pod).Kind != "Job" { // its CronJob counts
			g.addDescheduler(ctx, "Pod", pod.ObjectMeta, &pod.Spec)
		}
	}
	cronJobs, err := g.conn.Client.BatchV1().CronJobs(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if g.rebalancer.cronJobsErr = err; err != nil {
		return
	}
	for i := range cronJobs.Items {
		g.addDescheduler(ctx, "CronJob", cronJobs.Items[i].ObjectMeta, &cronJobs.Items[i].Spec.JobTemplate.Spec.Template.Spec)
	}
}

func (g *gatherer) addDescheduler(ctx context.Context, kind string, meta metav1.ObjectMeta, spec *corev1.PodSpec) {
	if len(g.rebalancer.deschedulers) >= maxDeschedulers || !runsProgram(spec, "descheduler", "koord-descheduler") {
		return
	}
	d := descheduler{name: fmt.Sprintf("%s %s/%s", kind, meta.Namespace, meta.Name), namespace: meta.Namespace}
	d.err = g.eachConfigMap(ctx, meta.Namespace, spec, func(name, content string) {
		if rules := rulesOf(content); len(rules) > 0 {
			d.configMap, d.rules = name, append(d.rules, rules...)
		}
	})
	g.rebalancer.deschedulers = append(g.rebalancer.deschedulers, d)
}

// eachConfigMap calls visit with each value of the ConfigMaps that the pod mounts.
func (g *gatherer) eachConfigMap(
	ctx context.Context, namespace string, spec *corev1.PodSpec, visit func(name, content string),
) (err error) {
	for _, volume := range spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		object, failed := g.conn.Client.CoreV1().ConfigMaps(namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		for _, key := range sortedKeys(object.Data) {
			visit(object.Name, object.Data[key])
		}
	}
	return err
}

func (f *facts) needRebalancer() *gap { return gapIf(f.rebalancer.name == "", "", "") }

// needMoves needs a rebalancer that moves pods, or may do so.
func (f *facts) needMoves() *gap {
	c := f.rebalancer.configuration
	plans := c != nil && c.Mode != rebalancer.Evict && f.rebalancer.configurationErr == nil
	return cmp.Or(f.needRebalancer(), gapIf(plans, "", ""))
}

// skipUnread skips a check if the rebalancer's configuration could not be read.
func (f *facts) skipUnread() []Result {
	if f.rebalancer.configurationErr == nil {
		return nil
	}
	return skip("not checked, because the configuration of the rebalancer %s could not be read: %s", f.rebalancer.name,
		oneLine(f.rebalancer.configurationErr))
}

// checkAlone finds other programs that move pods by load.
func (f *facts) checkAlone() []Result {
	if unread := f.skipUnread(); unread != nil {
		return unread
	}
	results := each(f.rebalancer.deschedulers, func(d descheduler) []Result {
		switch {
		case len(d.rules) > 0:
			return warn(f.adviseRun(cluster.Kubectl("-n", d.namespace, "edit", "configmap", d.configMap),
				"Let one program move pods by load. Disable the rule there, or set mode: Plan of the rebalancer. See the policy:"),
				"%s moves pods by %s, and the rebalancer %s moves them too", d.name, strings.Join(d.rules, ", "), f.rebalancer.name)
		case d.err != nil:
			return skip("not checked whether %s moves pods by load, because its policy could not be read: %s", d.name, oneLine(d.err))
		}
		return nil
	})
	switch {
	case f.rebalancer.cronJobsErr != nil:
		return append(results, skip("not checked whether CronJobs move pods by load, because they could not be listed: %s",
			oneLine(f.rebalancer.cronJobsErr))...)
	case len(results) == 0:
		return ok("no other program moves pods by load")
	}
	return results
}

// checkReadsLoad finds a scheduler that would place evicted pods without reading load.
func (f *facts) checkReadsLoad() []Result {
	if len(f.sources) > 0 {
		return ok("the scheduler that places moved pods reads load")
	}
	return fail(f.adviseLoadPlugin(), "the rebalancer %s moves pods off hot nodes, and no profile reads load: they would come back",
		f.rebalancer.name)
}

// checkBudgets finds workloads that may be moved and have no PodDisruptionBudget.
func (f *facts) checkBudgets() []Result {
	if unread := f.skipUnread(); unread != nil {
		return unread
	}
	owners := map[string][]*corev1.Pod{}
	for _, pod := range f.pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && slices.Contains(f.profiles(), pod.Spec.SchedulerName) &&
			rebalance.Movable(pod, f.rebalancer.configuration) {
			key := pod.Namespace + "/" + owner.Name
			owners[key] = append(owners[key], pod)
		}
	}
	single := slices.Contains(f.rebalancer.configuration.Unprotected, rebalancer.SingleReplicas)
	maps.DeleteFunc(owners, func(_ string, pods []*corev1.Pod) bool { return len(pods) == 1 && !single || f.hasBudget(pods[0]) })
	if len(owners) == 0 {
		return ok("each workload that may be moved has a PodDisruptionBudget")
	}
	names := sortedKeys(owners)
	pod := owners[names[0]][0]
	selector := labels.SelectorFromSet(stableLabels(pod)).String()
	command := cluster.Kubectl("-n", pod.Namespace, "create", "poddisruptionbudget", metav1.GetControllerOfNoCopy(pod).Name,
		"--max-unavailable=1", "--selector="+selector)
	return warn(f.adviseRun(command, "Without a PodDisruptionBudget, only the rebalancer's own limits hold. Create them, such as by:"),
		"%s may be moved and have no PodDisruptionBudget: %s", text.Count(len(names), "workload"), text.FirstN(names))
}

func (f *facts) hasBudget(pod *corev1.Pod) bool {
	return slices.ContainsFunc(f.rebalancer.budgets, func(b *policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return b.Namespace == pod.Namespace && (err != nil || selector.Matches(labels.Set(pod.Labels)))
	})
}

// stableLabels returns the labels that all pods of a workload keep through updates.
func stableLabels(pod *corev1.Pod) labels.Set {
	stable := labels.Set(maps.Clone(pod.Labels))
	for _, changing := range []string{
		"pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	} {
		delete(stable, changing)
	}
	return stable
}
