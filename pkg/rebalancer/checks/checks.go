// Package checks supplies doctor with checks of the rebalancer, and of other programs that move pods by load.
package checks

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

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

const (
	alone             = "rebalancer.alone"
	budgets           = "rebalancer.budgets"
	names             = "rebalancer.names"
	readsLoad         = "rebalancer.load"
	permissionsNeeded = "rebalancer.permissions"
)

// Supplier returns the checks of the rebalancer.
func Supplier() doctor.Supplier {
	return doctor.Supplier{
		Group: "rebalancer", IDs: []string{alone, budgets, names, readsLoad, permissionsNeeded},
		Read: func(ctx context.Context, conn *cluster.Connection, f *doctor.Facts) []doctor.Check[*doctor.Facts] {
			return read(ctx, conn, f).checks()
		},
	}
}

// facts are the facts of the rebalancer, and of other programs that evict pods.
type facts struct {
	*doctor.Facts
	conn *cluster.Connection
	// name is the rebalancer's pod; empty if none is installed. configuration is the default if no configuration could be read.
	name          string
	configuration *api.Configuration
	// content is that of the configuration; empty for the default.
	content      string
	deschedulers []descheduler
	// more says that there are more than maxDeschedulers.
	more bool
	// spec and namespace are those of the rebalancer's pod.
	spec        *corev1.PodSpec
	namespace   string
	permissions permissions
	// configurationErr says why the configuration could not be read, and cronJobsErr why CronJobs could not be listed.
	configurationErr, cronJobsErr error
}

// checks returns the checks that apply. The checks alone and budgets matter only for a rebalancer that moves pods, or may do so.
func (f *facts) checks() (checks []doctor.Check[*doctor.Facts]) {
	add := func(id string, run func() []doctor.Result, needs ...doctor.Need[*doctor.Facts]) {
		checks = append(checks, doctor.Check[*doctor.Facts]{
			ID: id, Needs: needs, Run: func(*doctor.Facts) []doctor.Result { return run() },
		})
	}
	if f.name == "" {
		return checks
	}
	if f.configurationErr != nil || f.configuration.Mode == api.Evict {
		add(alone, f.unlessUnread(f.checkAlone))
		add(budgets, f.unlessUnread(f.checkBudgets))
	}
	if f.configurationErr == nil {
		add(names, f.checkNames, (*doctor.Facts).NeedCluster)
	}
	add(permissionsNeeded, f.unlessUnread(f.checkPermissions))
	add(readsLoad, f.checkReadsLoad, (*doctor.Facts).NeedCluster)
	return checks
}

// unlessUnread skips a check if the rebalancer's configuration could not be read.
func (f *facts) unlessUnread(run func() []doctor.Result) func() []doctor.Result {
	if f.configurationErr == nil {
		return run
	}
	return func() []doctor.Result {
		return doctor.Skip("not checked, because the configuration of the rebalancer %s could not be read: %s", f.name,
			doctor.OneLine(f.configurationErr))
	}
}

// descheduler is another program that evicts pods.
type descheduler struct {
	name string
	// configMap, in namespace, holds the program's policy. rules are the loadRules that the policy enables.
	namespace, configMap string
	rules                []string
	err                  error
}

// loadRules are the plugins of deschedulers that move pods by load, and an OpenShift profile that enables one.
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

// read finds the rebalancer's pod, and reads the other facts if there is one.
func read(ctx context.Context, conn *cluster.Connection, d *doctor.Facts) *facts {
	f := &facts{Facts: d, conn: conn}
	w := f.Workload()
	i := slices.IndexFunc(f.Pods, func(pod *corev1.Pod) bool {
		return (w == nil || pod.Namespace == w.Namespace) && runsProgram(&pod.Spec, cluster.RebalancerProgram)
	})
	if i < 0 {
		return f
	}
	f.readDeschedulers(ctx)
	pod := f.Pods[i]
	f.name, f.namespace, f.spec, f.configuration = pod.Namespace+"/"+pod.Name, pod.Namespace, &pod.Spec, api.Default()
	found, invalid := false, error(nil)
	err := f.eachConfigMap(ctx, pod.Namespace, &pod.Spec, func(_, content string) {
		if c, err := api.Decode([]byte(content)); err == nil {
			f.configuration, f.content, found = c, content, true
		} else if strings.Contains(content, api.Kind) {
			invalid = err
		}
	})
	if !found {
		f.configurationErr = cmp.Or(err, invalid)
	}
	f.readPermissions(ctx)
	return f
}

func (f *facts) readDeschedulers(ctx context.Context) {
	for _, pod := range f.Pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.Kind != "Job" { // its CronJob counts
			f.addDescheduler(ctx, "Pod", pod.ObjectMeta, &pod.Spec)
		}
	}
	cronJobs, err := f.conn.Client.BatchV1().CronJobs(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if f.cronJobsErr = err; err != nil {
		return
	}
	for i := range cronJobs.Items {
		f.addDescheduler(ctx, "CronJob", cronJobs.Items[i].ObjectMeta, &cronJobs.Items[i].Spec.JobTemplate.Spec.Template.Spec)
	}
}

func (f *facts) addDescheduler(ctx context.Context, kind string, meta metav1.ObjectMeta, spec *corev1.PodSpec) {
	if !runsProgram(spec, "descheduler", "koord-descheduler") {
		return
	}
	if f.more = len(f.deschedulers) >= maxDeschedulers; f.more {
		return
	}
	d := descheduler{name: fmt.Sprintf("%s %s/%s", kind, meta.Namespace, meta.Name), namespace: meta.Namespace}
	d.err = f.eachConfigMap(ctx, meta.Namespace, spec, func(name, content string) {
		if rules := rulesOf(content); len(rules) > 0 {
			d.configMap, d.rules = name, append(d.rules, rules...)
		}
	})
	f.deschedulers = append(f.deschedulers, d)
}

// eachConfigMap calls visit with each value of the ConfigMaps that the pod mounts.
func (f *facts) eachConfigMap(
	ctx context.Context, namespace string, spec *corev1.PodSpec, visit func(name, content string),
) (err error) {
	for _, volume := range spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		object, failed := f.conn.Client.CoreV1().ConfigMaps(namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(object.Data)) {
			visit(object.Name, object.Data[key])
		}
	}
	return err
}

// checkAlone finds other programs that move pods by load.
func (f *facts) checkAlone() (results []doctor.Result) {
	for _, d := range f.deschedulers {
		switch {
		case len(d.rules) > 0:
			results = append(results, doctor.Warn(f.AdviseRun(cluster.Kubectl("-n", d.namespace, "edit", "configmap", d.configMap),
				"Let one program move pods by load. Disable the rule there, or set mode: Plan of the rebalancer. See the policy:"),
				"%s moves pods by %s, and the rebalancer %s moves them too", d.name, strings.Join(d.rules, ", "), f.name)...)
		case d.err != nil:
			results = append(results, doctor.Skip("not checked whether %s moves pods by load, because its policy could not be read: %s",
				d.name, doctor.OneLine(d.err))...)
		}
	}
	if f.more {
		results = append(results, doctor.Skip("not checked whether other programs move pods by load, because only %d policies of "+
			"deschedulers are read", maxDeschedulers)...)
	}
	switch {
	case f.cronJobsErr != nil:
		return append(results, doctor.Skip("not checked whether CronJobs move pods by load, because they could not be listed: %s",
			doctor.OneLine(f.cronJobsErr))...)
	case len(results) == 0:
		return doctor.Fine("no other program moves pods by load")
	}
	return results
}

// checkNames finds names and labels in the rebalancer's configuration that select nothing.
func (f *facts) checkNames() (results []doctor.Result) {
	for _, x := range configlint.CheckNames([]byte(f.content), f.Named) {
		advice := doctor.Advise("In the configuration of the rebalancer %s, at %s: %s.", f.name, x.Field, x.Advice)
		results = append(results, doctor.Warn(advice, "%s: %s: %v", x.Field, x.Code, x.Details[1])...)
	}
	return results
}

// checkReadsLoad finds a scheduler that would place evicted pods without reading load.
func (f *facts) checkReadsLoad() []doctor.Result {
	if f.ReadsLoad() {
		return doctor.Fine("the scheduler that places moved pods reads load")
	}
	return doctor.Fail(f.AdviseLoadPlugin(),
		"the rebalancer %s moves pods off hot nodes, and no profile reads load: they would come back",
		f.name)
}

// checkBudgets finds workloads that may be moved and have no PodDisruptionBudget.
func (f *facts) checkBudgets() []doctor.Result {
	owners := map[string][]*corev1.Pod{}
	for _, pod := range f.Pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && slices.Contains(f.Profiles(), pod.Spec.SchedulerName) &&
			plan.Movable(pod, f.configuration) {
			key := pod.Namespace + "/" + owner.Name
			owners[key] = append(owners[key], pod)
		}
	}
	single := slices.Contains(f.configuration.Unprotected, api.SingleReplicas)
	maps.DeleteFunc(owners, func(_ string, pods []*corev1.Pod) bool { return len(pods) == 1 && !single || f.hasBudget(pods[0]) })
	if len(owners) == 0 {
		return doctor.Fine("each workload that may be moved has a PodDisruptionBudget")
	}
	names := slices.Sorted(maps.Keys(owners))
	pod := owners[names[0]][0]
	selector := labels.SelectorFromSet(stableLabels(pod)).String()
	command := cluster.Kubectl("-n", pod.Namespace, "create", "poddisruptionbudget", metav1.GetControllerOfNoCopy(pod).Name,
		"--max-unavailable=1", "--selector="+selector)
	return doctor.Warn(
		f.AdviseRun(command, "Without a PodDisruptionBudget, only the rebalancer's own limits hold. Create them, such as by:"),
		"%s may be moved and have no PodDisruptionBudget: %s", text.Count(len(names), "workload"), text.FirstN(names))
}

func (f *facts) hasBudget(pod *corev1.Pod) bool {
	return slices.ContainsFunc(doctor.ListOf[*policyv1.PodDisruptionBudget](f.Objects), func(b *policyv1.PodDisruptionBudget) bool {
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
