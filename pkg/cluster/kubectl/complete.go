package kubectl

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// CompleteFlag sets the completion of a flag's values.
func CompleteFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

// CompleteValues completes the values of a flag that has no others.
func CompleteValues(command *cobra.Command, name string, values ...string) {
	CompleteFlag(command, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (f *Flags) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.Kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// Complete completes names that are read from the cluster.
func (f *Flags) Complete(
	names func(ctx context.Context, connection *cluster.Connection, args []string) ([]string, error),
) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		connection, err := f.Connect(command)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found, err := names(command.Context(), connection, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// deployments lists NAMESPACE/NAME of Deployments.
func deployments(ctx context.Context, connection *cluster.Connection, _ []string) (names []string, err error) {
	list, err := connection.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	return names, nil
}

// Profiles lists the configuration's profiles.
func (f *Flags) Profiles(ctx context.Context, connection *cluster.Connection, _ []string) ([]string, error) {
	found, err := connection.ValidConfiguration(ctx, f.Configuration)
	if err != nil {
		return nil, err
	}
	return found.ProfileNames(), nil
}

// CompleteFiles completes the values of flags with names of files.
func CompleteFiles(command *cobra.Command, names ...string) {
	for _, name := range names {
		CompleteFlag(command, name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	}
}

// CompleteNames completes the names of the cluster's objects of a core resource.
func (f *Flags) CompleteNames(resource string) cobra.CompletionFunc {
	return f.Complete(func(ctx context.Context, connection *cluster.Connection, args []string) (names []string, err error) {
		// From the API server's cache.
		list, err := connection.Client.CoreV1().RESTClient().Get().Resource(resource).Param("resourceVersion", "0").Do(ctx).Get()
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(list, func(object runtime.Object) error {
			if name := object.(metav1.Object).GetName(); !slices.Contains(args, name) {
				names = append(names, name)
			}
			return nil
		})
		return names, err
	})
}
