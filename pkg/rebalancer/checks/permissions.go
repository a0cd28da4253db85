package checks

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

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/command"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
)

// permissions are those of the rebalancer's account. needed counts verbs.
type permissions struct {
	user    string
	needed  int
	missing []cluster.Permission
	err     error
}

// readPermissions asks which permissions the rebalancer's account lacks.
func (f *facts) readPermissions(ctx context.Context) {
	if f.configurationErr == nil && f.NeedConfiguration() == nil {
		f.permissions.user = serviceaccount.MakeUsername(f.namespace, cmp.Or(f.spec.ServiceAccountName, "default"))
		f.permissions.err = f.askPermissions(ctx)
	}
}

func (f *facts) askPermissions(ctx context.Context) error {
	if f.conn.KubeConfig.Impersonate.UserName != "" {
		return errors.New("you act as another user (--as)")
	}
	p, election := &f.permissions, f.Election()
	state, err := stateOf(f.spec)
	if err != nil {
		return err
	}
	lease := types.NamespacedName{Namespace: election.ResourceNamespace, Name: election.ResourceName}
	needed, err := command.Permissions(f.conn, f.configuration.Mode, state, lease)
	if err != nil {
		return err
	}
	needed = append(needed, f.LoadPermissions()...)
	for i := range needed {
		p.needed += len(needed[i].Verbs)
	}
	p.missing, err = f.conn.MissingPermissions(ctx, p.user, needed)
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

// checkPermissions checks that the account has the permissions that the mode needs.
func (f *facts) checkPermissions() []doctor.Result {
	p := &f.permissions
	switch {
	case p.user == "":
		return nil // the configuration checks say why
	case p.err != nil:
		return doctor.Skip("not checked, because the permissions of %s could not be read: %s", p.user, doctor.OneLine(p.err))
	case len(p.missing) > 0:
		return f.MissingChecks(doctor.Fail, p.user, "rebalancer", p.missing)
	}
	return doctor.Fine("%s has all %d required permissions of mode %s", p.user, p.needed, f.configuration.Mode)
}
