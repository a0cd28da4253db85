package main

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// addCompletion completes values of flags and names of objects, for the command and its subcommands.
func addCompletion(command *cobra.Command) {
	formats := []cobra.Completion{"table", "json", "yaml", "jsonpath=", "go-template="}
	for name, complete := range map[string]cobra.CompletionFunc{
		"output":       cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp),
		"context":      completeContexts,
		"namespace":    completeNames(namespaces),
		"node":         completeNames(nodes),
		"drain":        completeNames(nodes),
		"like":         completeNames(nodes),
		"evict-all-in": completeNames(namespaces),
	} {
		has := command.Flags().Lookup(name) != nil || command.PersistentFlags().Lookup(name) != nil
		if has && command.GroupID != "replay" {
			// The only errors are that the flag does not exist, or is completed already.
			_ = command.RegisterFlagCompletionFunc(name, complete)
		}
	}
	if command.ValidArgsFunction == nil {
		switch command.CommandPath() {
		case "kubectl plimsoll explain":
			command.ValidArgsFunction = completeNames(pods)
		case "kubectl plimsoll top nodes", "kubectl plimsoll top pods":
			command.ValidArgsFunction = completeNames(nodes)
		}
	}
	for _, c := range command.Commands() {
		addCompletion(c)
	}
}

// clusterFlagsOf returns the cluster flags as the command's flags set them.
func clusterFlagsOf(command *cobra.Command) *clusterFlags {
	f, own := newClusterFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.addTo(own)
	command.Flags().Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil {
			_ = own.Set(flag.Name, flag.Value.String()) // what is invalid completes nothing
		}
	})
	return f
}

// completeContexts completes the contexts of the kubeconfig.
func completeContexts(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := clusterFlagsOf(command).kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completeNames completes the names of objects of the cluster.
func completeNames(list func(context.Context, *live.Connection) ([]string, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		connection, err := clusterFlagsOf(command).connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := list(command.Context(), connection)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// fromCache lists what the API server has in its cache.
func fromCache() metav1.ListOptions { return metav1.ListOptions{ResourceVersion: "0"} }

func namespaces(ctx context.Context, c *live.Connection) (names []string, err error) {
	list, err := c.Client.CoreV1().Namespaces().List(ctx, fromCache())
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

func nodes(ctx context.Context, c *live.Connection) (names []string, err error) {
	list, err := c.Client.CoreV1().Nodes().List(ctx, fromCache())
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// pods lists the pods of the user's namespace.
func pods(ctx context.Context, c *live.Connection) (names []string, err error) {
	list, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, fromCache())
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
