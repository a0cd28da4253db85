package doctor

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/moves"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance/kube"
)

// readRebalancerPermissions asks which permissions the rebalancer's account lacks, and which write permissions it does not need.
func (g *gatherer) readRebalancerPermissions(ctx context.Context) {
	if r := &g.rebalancer; cmp.Or(g.needRebalancer(), g.needConfiguration()) == nil && r.configurationErr == nil {
		r.permissions.user = serviceaccount.MakeUsername(r.namespace, cmp.Or(r.spec.ServiceAccountName, "default"))
		r.permissions.err = g.addRebalancerPermissions(ctx)
	}
}

func (g *gatherer) addRebalancerPermissions(ctx context.Context) error {
	if g.conn.KubeConfig.Impersonate.UserName != "" {
		return errors.New("you act as another user (--as)")
	}
	r, p, election := &g.rebalancer, &g.rebalancer.permissions, g.election()
	state, err := stateOf(r.spec)
	if err != nil {
		return err
	}
	lease := types.NamespacedName{Namespace: election.ResourceNamespace, Name: election.ResourceName}
	needed, err := moves.Permissions(g.conn, r.configuration, state, lease)
	if err != nil {
		return err
	}
	needed = append(needed, g.loadPermissions()...)
	p.needed = countVerbs(needed)
	if p.missing, err = g.conn.MissingPermissions(ctx, p.user, needed); err != nil {
		return err
	}
	var excess []cluster.Permission
	for _, mode := range rebalancer.Modes() {
		ofMode, err := moves.Permissions(g.conn, &rebalancer.Configuration{Mode: mode, Goals: rebalancer.Goals()}, state, lease)
		if err != nil {
			return err
		}
		excess = append(excess, slices.DeleteFunc(ofMode, func(p cluster.Permission) bool {
			return readsOnly(&p) || slices.ContainsFunc(needed, sameAs(&p))
		})...)
	}
	denied, err := g.conn.MissingPermissions(ctx, p.user, excess)
	r.excess = slices.DeleteFunc(excess, func(p cluster.Permission) bool { return slices.ContainsFunc(denied, sameAs(&p)) })
	return err
}

// stateOf returns the name of the object that holds the state of a pod's rebalancer.
func stateOf(spec *corev1.PodSpec) (types.NamespacedName, error) {
	flags := pflag.NewFlagSet(cluster.RebalancerProgram, pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	state := flags.String(kube.StateFlag, kube.DefaultState, "")
	for i := range spec.Containers {
		if c := &spec.Containers[i]; len(c.Command) > 0 && path.Base(c.Command[0]) == cluster.RebalancerProgram {
			if err := flags.Parse(slices.Concat(c.Command[1:], c.Args)); err != nil {
				return types.NamespacedName{}, err
			}
		}
	}
	return kube.ParseState(*state)
}

func readsOnly(p *cluster.Permission) bool {
	return !slices.ContainsFunc(p.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
}

func sameAs(p *cluster.Permission) func(cluster.Permission) bool {
	return func(other cluster.Permission) bool { return other.String() == p.String() }
}

// checkRebalancerPermissions checks that the account has the permissions that mode and goals need, and no other write permission.
func (f *facts) checkRebalancerPermissions() []Result {
	if unread := f.skipUnread(); unread != nil {
		return unread
	}
	switch r, p := &f.rebalancer, &f.rebalancer.permissions; {
	case p.user == "":
		return nil // the configuration checks say why
	case p.err != nil:
		return skip("not checked, because the permissions of %s could not be read: %s", p.user, oneLine(p.err))
	case len(p.missing) > 0:
		return f.missingChecks(fail, p.user, "rebalancer", p.missing)
	case len(r.excess) > 0:
		bindings := cluster.Kubectl("get", "clusterrolebindings,rolebindings", "-A", "-o", "wide")
		return each(r.excess, func(excess cluster.Permission) []Result {
			return warn(f.adviseRun(bindings.Pipe(cluster.Call("grep", r.spec.ServiceAccountName)),
				"Remove it from the account's roles. The chart's roles have what mode and goals need. Find them:"),
				"%s has permission to %s, which mode %s with goals %v does not need",
				p.user, &excess, r.configuration.Mode, r.configuration.Goals)
		})
	default:
		return ok("%s has all %d required permissions of mode %s", p.user, p.needed, r.configuration.Mode)
	}
}
