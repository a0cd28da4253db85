package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// completeFlag completes the values of a flag that the command has.
func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeContexts completes the contexts of the kubeconfig.
func (f *clusterFlags) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
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
