package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

func (f *clusterFlags) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completeSchedulers completes NAMESPACE/NAME of Deployments.
func (f *clusterFlags) completeSchedulers(
	command *cobra.Command, _ []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	connection, err := f.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := connection.Client.AppsV1().Deployments("").List(command.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeProfiles completes the names of the configuration's profiles.
func (f *clusterFlags) completeProfiles(
	command *cobra.Command, _ []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	connection, err := f.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	found, err := connection.ValidConfiguration(command.Context(), f.configuration)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return found.ProfileNames(), cobra.ShellCompDirectiveNoFileComp
}

func completeFiles(command *cobra.Command, names ...string) {
	for _, name := range names {
		completeFlag(command, name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	}
}

// completeNames completes the names of a core resource's objects; pods are those of the user's namespace.
func (f *clusterFlags) completeNames(resource string) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		connection, err := f.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		// From the API server's cache.
		request := connection.Client.CoreV1().RESTClient().Get().Resource(resource).Param("resourceVersion", "0")
		if resource == "pods" {
			request.Namespace(connection.Namespace)
		}
		list, err := request.Do(command.Context()).Get()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		_ = meta.EachListItem(list, func(object runtime.Object) error { // the response is a list of objects
			if name := object.(metav1.Object).GetName(); !slices.Contains(args, name) {
				names = append(names, name)
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
