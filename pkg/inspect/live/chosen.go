package live

import (
	"regexp"
	"strings"
)

// called matches the programs that take the flags, with the plugin's subcommand. It also matches what is quoted, to skip it.
var called = regexp.MustCompile(`\\.|'[^']*'|(?:^|; |&& |\| )(?:kubectl plimsoll [a-z-]+|kubectl|helm)(?: |$)`)

// Command returns the command for the shell with the flags, so that it acts on the same cluster.
func (c Chosen) Command(command string) string {
	return called.ReplaceAllStringFunc(command, func(found string) string {
		if strings.HasPrefix(found, "'") || strings.HasPrefix(found, `\`) {
			return found
		}
		program := strings.TrimSuffix(found, " ")
		flags := [][2]string{
			{"--kubeconfig", c.Kubeconfig}, {"--context", c.Context}, {"--cluster", c.Cluster}, {"--server", c.Server},
			{"--user", c.User}, {"--as", c.As},
		}
		if strings.HasSuffix(program, "helm") { // it has none for a cluster or a user of the kubeconfig
			flags = [][2]string{
				{"--kubeconfig", c.Kubeconfig}, {"--kube-context", c.Context}, {"--kube-apiserver", c.Server}, {"--kube-as-user", c.As},
			}
		}
		return program + flagsOf(flags...) + found[len(program):]
	})
}
