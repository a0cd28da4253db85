package live

import (
	"regexp"
	"strings"
)

// Chosen are the flags of kubectl that chose the cluster; both may be empty.
type Chosen struct{ Kubeconfig, Context string }

// called matches the programs that take the flags, with the plugin's subcommand. It also matches what is quoted, to skip it.
var called = regexp.MustCompile(`\\.|'[^']*'|(?:^|; |&& |\| )(?:kubectl plimsoll [a-z-]+|kubectl|helm)(?: |$)`)

// Command returns the command for the shell with the flags, so that it acts on the same cluster.
func (c Chosen) Command(command string) string {
	return called.ReplaceAllStringFunc(command, func(found string) string {
		if strings.HasPrefix(found, "'") || strings.HasPrefix(found, `\`) {
			return found
		}
		program, context := strings.TrimSuffix(found, " "), "--context"
		if strings.HasSuffix(program, "helm") {
			context = "--kube-context"
		}
		flags := flagsOf([2]string{"--kubeconfig", c.Kubeconfig}, [2]string{context, c.Context})
		return program + flags + found[len(program):]
	})
}
