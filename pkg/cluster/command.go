package cluster

import (
	"slices"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Chosen are kubectl's flags that chose the cluster and the user; all may be empty.
type Chosen struct {
	Kubeconfig, Context, Cluster, Server, TLSServerName, CertificateAuthority string
	InsecureSkipTLSVerify                                                     bool
	User, ClientCertificate, ClientKey, As, AsUID                             string
	AsGroups                                                                  []string
}

// values returns the values of each flag, in the order of the fields. Empty values are not written.
func (c *Chosen) values() [13][]string {
	insecure := ""
	if c.InsecureSkipTLSVerify {
		insecure = "true"
	}
	return [...][]string{
		{c.Kubeconfig}, {c.Context}, {c.Cluster}, {c.Server}, {c.TLSServerName}, {c.CertificateAuthority}, {insecure},
		{c.User}, {c.ClientCertificate}, {c.ClientKey}, {c.As}, {c.AsUID}, c.AsGroups,
	}
}

// flags are a program's flags for the fields of Chosen, in their order; empty if it has none. Boolean values need the equals sign.
type flags [13]string

var (
	ofKubectl = flags{
		"--kubeconfig", "--context", "--cluster", "--server", "--tls-server-name", "--certificate-authority",
		"--insecure-skip-tls-verify=", "--user", "--client-certificate", "--client-key", "--as", "--as-uid", "--as-group",
	}
	ofHelm = flags{
		"--kubeconfig", "--kube-context", "", "--kube-apiserver", "--kube-tls-server-name", "--kube-ca-file",
		"--kube-insecure-skip-tls-verify=", "", "", "", "--kube-as-user", "", "--kube-as-group",
	}
	// granting lacks the flags of impersonation: a user who lacks a permission cannot grant it.
	granting = flags{
		"--kubeconfig", "--context", "--cluster", "--server", "--tls-server-name", "--certificate-authority",
		"--insecure-skip-tls-verify=", "--user", "--client-certificate", "--client-key",
	}
)

// Command is a shell command that users copy: calls of programs. Nil is no command.
type Command []call

// call is a call of a program.
type call struct {
	// operator is the shell's operator before the call; empty for the first.
	operator, program string
	flags             flags
	args              []string
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
func Helm(args ...string) Command { return Command{{program: "helm", flags: ofHelm, args: args}} }

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
	values := chosen.values()
	var b strings.Builder
	for _, call := range c {
		b.WriteString(call.operator + call.program)
		for i, flag := range call.flags {
			for _, value := range values[i] {
				if flag != "" && value != "" {
					b.WriteString(" " + strings.Replace(flag+" ", "= ", "=", 1) + text.ShellQuote(value))
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
