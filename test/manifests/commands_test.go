package manifests_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// foreignFlags are flags of other programs that the docs name alone.
var foreignFlags = map[string]string{
	"endpoint-strict": "Thanos", "event-ttl": "kube-apiserver", "feature-gates": "kube-apiserver", "kube-version": "helm",
	"leader-elect": "kube-scheduler", "patches": "kubeadm", "runtime-config": "kube-apiserver",
}

// A flag that the docs name alone is one of a program of this project, or of a known other one.
func TestDocs_FlagsExist(t *testing.T) {
	var own strings.Builder
	for _, folder := range []string{"cmd", "pkg"} {
		for name, text := range filesBelow(t, folder, ".go") {
			if !strings.HasSuffix(name, "_test.go") {
				own.WriteString(text)
			}
		}
	}
	alone, named := regexp.MustCompile(`^--([a-z][a-z-]+)(?:$|[= ])`), map[string]bool{}
	for page, text := range documented.Pages(t, root) {
		for _, code := range documented.Inline(text) {
			match := alone.FindStringSubmatch(code)
			if match == nil {
				continue
			}
			named[match[1]] = true
			if foreignFlags[match[1]] == "" && !strings.Contains(own.String(), `"`+match[1]+`"`) {
				t.Errorf("%s names --%s, which no program of this project has: add the program that has it", page, match[1])
			}
		}
	}
	for name := range foreignFlags {
		if !named[name] {
			t.Errorf("no page names --%s", name)
		}
	}
}
