// Package documented finds the commands of the documentation, and compares them with the flags of programs.
package documented

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Command is a command of a page, without a prompt and without line breaks.
type Command struct{ Page, Text string }

// program matches a line that begins with a program.
var program = regexp.MustCompile(`^(` +
	`(kubectl|kubectl-plimsoll|helm|oc|gh|cosign|sed|crictl|mkdir|cp|kubeadm|rm|printf|curl|chmod|skopeo|sha256sum) ` +
	`|bin/\S+ |sh \S+\.sh|make [a-z]|git (checkout|clone) |go test |(kube-scheduler|load-watcher|rebalancer) (-|shadow))`)

var (
	fence     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline    = regexp.MustCompile("`([^`]+)`")
	paragraph = regexp.MustCompile(`\n\s*\n`)
)

// Pages returns the text of the pages for users, by their path.
func Pages(tb testing.TB, root string) map[string]string {
	tb.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"README.md", "manifests/chart/README.md", "docs/*.md", "docs/plugins/*.md"} {
		for _, page := range check.Value(fs.Glob(os.DirFS(root), pattern))(tb) {
			pages[page] = string(check.Value(os.ReadFile(filepath.Join(root, page)))(tb))
		}
	}
	return pages
}

// Commands returns the commands of code blocks and of inline code.
func Commands(tb testing.TB, root string) (commands []Command) {
	tb.Helper()
	for page, text := range Pages(tb, root) {
		for _, command := range append(blocks(text), Inline(text)...) {
			if program.MatchString(command) {
				commands = append(commands, Command{page, comment.ReplaceAllString(command, "")})
			}
		}
	}
	return commands
}

// blocks returns the lines of code blocks. A line has its continuations.
func blocks(page string) (lines []string) {
	continued := false
	for line := range strings.Lines(page) {
		text, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		switch {
		case !strings.HasPrefix(line, "    ") && !prompt:
			continued = false
			continue
		case continued:
			lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], ` \`) + " " + text
		default:
			lines = append(lines, text)
		}
		continued = program.MatchString(lines[len(lines)-1]) && (strings.HasSuffix(text, `\`) || strings.HasSuffix(text, "|"))
	}
	return lines
}

// Inline returns the inline code of a page.
func Inline(page string) (code []string) {
	for _, text := range paragraph.Split(fence.ReplaceAllString(page, ""), -1) {
		for _, match := range inline.FindAllStringSubmatch(text, -1) {
			code = append(code, strings.Join(strings.Fields(match[1]), " "))
		}
	}
	return code
}

var (
	comment = regexp.MustCompile(`\s+# .*$`)
	quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	joint   = regexp.MustCompile(` (?:&&|\||--|>) `)
	flag    = regexp.MustCompile(`^(?:--([a-z][a-z-]*)|-([A-Za-z]))(=.*)?$`)
)

// CheckFlags expects the subcommands and flags of the documentation's commands to exist. names are those of the program. Inline
// code may leave out the program.
func CheckFlags(tb testing.TB, root string, command *cobra.Command, names ...string) {
	tb.Helper()
	command.InitDefaultHelpCmd()
	command.InitDefaultCompletionCmd("completion")
	documented := Commands(tb, root)
	for page, text := range Pages(tb, root) {
		for _, code := range Inline(text) {
			if sub, rest, _ := strings.Cut(code, " "); strings.Contains(" "+rest, " -") && isSubcommand(command, sub) {
				documented = append(documented, Command{page, names[0] + " " + code})
			}
		}
	}
	checked := 0
	for _, d := range documented {
		for _, part := range joint.Split(quoted.ReplaceAllString(d.Text, "X"), -1) {
			part = strings.TrimPrefix(part, "bin/")
			for _, name := range names {
				if words, ok := strings.CutPrefix(part+" ", name+" "); ok {
					checked++
					for _, problem := range problems(command, strings.Fields(words)) {
						tb.Errorf("%s: %s: %s", d.Page, d.Text, problem)
					}
				}
			}
		}
	}
	if checked == 0 {
		tb.Errorf("no page has a command of %s", names[0])
	}
}

func isSubcommand(command *cobra.Command, name string) bool {
	return slices.ContainsFunc(command.Commands(), func(sub *cobra.Command) bool { return sub.Name() == name })
}

// problems names the words that the command does not have.
func problems(command *cobra.Command, words []string) (unknown []string) {
	words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, "<") }) // a key, such as <TAB>
	found, words, err := command.Find(words)
	if err != nil {
		return []string{err.Error()}
	}
	found.InitDefaultHelpFlag()
	found.InitDefaultVersionFlag()
	found.InheritedFlags() // merges them
	var positional []string
	for i := 0; i < len(words); i++ {
		match := flag.FindStringSubmatch(words[i])
		if match == nil {
			positional = append(positional, words[i])
			continue
		}
		f := found.Flag(match[1])
		if match[2] != "" {
			f = found.Flags().ShorthandLookup(match[2])
		}
		switch {
		case f == nil:
			unknown = append(unknown, "no flag "+words[i])
		case match[3] == "" && f.NoOptDefVal == "":
			i++ // its value
		}
	}
	if found.HasSubCommands() && len(positional) > 0 {
		unknown = append(unknown, "no subcommand "+positional[0])
	}
	return unknown
}
