package cluster

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Chosen are the values of kubectl's flags that chose the cluster and the user, by the flags' names without dashes.
type Chosen map[string][]string

// ofKubectl are the flags that choose a cluster and a user, in the order of printed commands.
var ofKubectl = []string{
	"kubeconfig", "context", "cluster", "server", "tls-server-name", "certificate-authority", "insecure-skip-tls-verify",
	"user", "client-certificate", "client-key", "as", "as-uid", "as-group",
}

// granting lacks the flags of impersonation: a user who lacks a permission cannot grant it.
var granting = ofKubectl[:10]

// ofHelm are Helm's names of the flags that it has.
var ofHelm = map[string]string{
	"kubeconfig": "kubeconfig", "context": "kube-context", "server": "kube-apiserver", "tls-server-name": "kube-tls-server-name",
	"certificate-authority": "kube-ca-file", "insecure-skip-tls-verify": "kube-insecure-skip-tls-verify", "as": "kube-as-user",
	"as-group": "kube-as-group",
}

// ChosenBy returns the flags that have a value. Secrets, such as --token, are left out.
func ChosenBy(flags *pflag.FlagSet) Chosen {
	chosen := Chosen{}
	for _, name := range ofKubectl {
		value := flags.Lookup(name).Value
		values := []string{value.String()}
		if list, ok := value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) > 0 && values[0] != "" && values[0] != "false" {
			chosen[name] = values
		}
	}
	return chosen
}

// flags returns the flags with these names, as arguments after a space. A program with other names has those of renamed alone.
func (c Chosen) flags(names []string, renamed map[string]string) string {
	var b strings.Builder
	for _, name := range names {
		for _, value := range c[name] {
			if flag := renamed[name]; flag != "" || renamed == nil {
				separator := map[bool]string{true: "=", false: " "}[value == "true"] // a boolean needs the equals sign
				b.WriteString(" --" + cmp.Or(flag, name) + separator + text.ShellQuote(value))
			}
		}
	}
	return b.String()
}

// Command is a shell command that users copy, with marks where flags choose the cluster. Empty is no command. Join commands with
// the shell's operators.
type Command string

// The marks are characters that no argument of a program can have.
const kubectlMark, grantingMark, helmMark = "\x00k", "\x00g", "\x00h"

// Kubectl returns a call of kubectl.
func Kubectl(args ...string) Command { return Command("kubectl" + kubectlMark).With(args...) }

// Granting is Kubectl as the user who impersonates another.
func Granting(args ...string) Command { return Command("kubectl" + grantingMark).With(args...) }

// Plugin returns a call of a subcommand of this program as kubectl's plugin.
func Plugin(subcommand string, args ...string) Command {
	return Command("kubectl plimsoll " + subcommand + kubectlMark).With(args...)
}

// Helm returns a call of Helm.
func Helm(args ...string) Command { return Command("helm" + helmMark).With(args...) }

// Call returns a call of a program that does not choose a cluster.
func Call(program string, args ...string) Command { return Command(program).With(args...) }

// With adds arguments to the last call. Of --flag=VALUE and jsonpath=VALUE only the value is quoted, as users write it.
func (c Command) With(args ...string) Command {
	for _, arg := range args {
		arg = strings.ReplaceAll(arg, "\x00", "")
		quoted := text.ShellQuote(arg)
		if name, value, found := strings.Cut(arg, "="); found && (strings.HasPrefix(name, "--") || name == "jsonpath") {
			quoted = text.ShellQuote(name) + "=" + text.ShellQuote(value)
		}
		c += Command(" " + quoted)
	}
	return c
}

// Into writes the output of the last call to the file.
func (c Command) Into(file string) Command { return c + Command(" > "+text.ShellQuote(file)) }

// For returns the command as text, with the flags that choose the cluster.
func (c Command) For(chosen Chosen) string {
	return strings.NewReplacer(
		kubectlMark, chosen.flags(ofKubectl, nil), grantingMark, chosen.flags(granting, nil), helmMark, chosen.flags(ofKubectl, ofHelm),
	).Replace(string(c))
}

// flagsWith returns the flags that have a value, as arguments.
func flagsWith(all ...[2]string) (args []string) {
	for _, flag := range all {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	return args
}
