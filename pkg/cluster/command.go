package cluster

import (
	"slices"
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

// Command is a shell command that users copy: calls of programs. Nil is no command.
type Command []call

// call is a call of a program.
type call struct {
	// operator is the shell's operator before the call; empty for the first.
	operator, program string
	// flags are kubectl's names of the flags that it takes from Chosen.
	flags, args []string
	// into is the file that its output is written to; empty for none.
	into string
}

// Kubectl returns a call of kubectl.
func Kubectl(args ...string) Command {
	return Command{{program: "kubectl", flags: ofKubectl, args: args}}
}

// Granting returns a call of kubectl that grants a permission, as the user who impersonates another.
func Granting(args ...string) Command {
	return Command{{program: "kubectl", flags: granting, args: args}}
}

// Plugin returns a call of a subcommand of this program as kubectl's plugin.
func Plugin(subcommand string, args ...string) Command {
	return Command{{program: "kubectl plimsoll " + subcommand, flags: ofKubectl, args: args}}
}

// Helm returns a call of Helm.
func Helm(args ...string) Command { return Command{{program: "helm", flags: ofKubectl, args: args}} }

// Call returns a call of a program that does not choose a cluster.
func Call(program string, args ...string) Command { return Command{{program: program, args: args}} }

// With adds arguments to the last call.
func (c Command) With(args ...string) Command {
	added := slices.Clone(c)
	last := &added[len(c)-1]
	last.args = slices.Concat(last.args, args)
	return added
}

// And calls next if c succeeds.
func (c Command) And(next Command) Command { return c.join(" && ", next) }

// Then calls next after c.
func (c Command) Then(next Command) Command { return c.join("; ", next) }

// Pipe calls next with the output of c.
func (c Command) Pipe(next Command) Command { return c.join(" | ", next) }

func (c Command) join(operator string, next Command) Command {
	joined := slices.Concat(c, next)
	joined[len(c)].operator = operator
	return joined
}

// Into writes the output of the last call to the file.
func (c Command) Into(file string) Command {
	written := slices.Clone(c)
	written[len(c)-1].into = file
	return written
}

// For returns the command as text, with the flags that choose the cluster; empty if there is none.
func (c Command) For(chosen Chosen) string {
	var b strings.Builder
	for _, call := range c {
		b.WriteString(call.operator + call.program)
		for _, name := range call.flags {
			flag := name
			if call.program == "helm" {
				flag = ofHelm[name]
			}
			for _, value := range chosen[name] {
				if flag != "" {
					separator := map[bool]string{true: "=", false: " "}[value == "true"] // a boolean needs the equals sign
					b.WriteString(" --" + flag + separator + text.ShellQuote(value))
				}
			}
		}
		for _, arg := range call.args {
			b.WriteString(" " + quoteArg(arg))
		}
		if call.into != "" {
			b.WriteString(" > " + text.ShellQuote(call.into))
		}
	}
	return b.String()
}

// quoteArg quotes an argument. Of --flag=VALUE and jsonpath=VALUE only the value is quoted, as users write it.
func quoteArg(arg string) string {
	name, value, found := strings.Cut(arg, "=")
	if found && (strings.HasPrefix(name, "--") || name == "jsonpath") {
		return text.ShellQuote(name) + "=" + text.ShellQuote(value)
	}
	return text.ShellQuote(arg)
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
