package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documentedCommands are the commands of the docs, by a regular expression, with the test that runs the command or a
// part of it; or, with a space, the reason why no test does.
var documentedCommands = map[string]string{
	`^make playground`: "takes six minutes; test/playground tests its scenarios",
	`^make build`:      "TestMakefile_BuildOfMinor",
	`^make quality`:    "takes two minutes; its last step is TestSynthetic_RanksPoliciesAsRealTracesDo",
	`^make build && bin/kubectl-plimsoll top`:                         "TestTop_Nodes",
	`^\$ kubectl plimsoll top pods`:                                   "TestTop_Pods",
	`^\$ kubectl plimsoll top$`:                                       "TestTop_Nodes",
	`^\$ kubectl plimsoll doctor`:                                     "TestDoctor_NodeLabel",
	`^\$ kubectl plimsoll explain`:                                    "TestExplain_WorkedExample",
	`^\$ kubectl plimsoll what-if`:                                    "TestWhatIf_NodesAndProfiles",
	`kubectl-plimsoll doctor$`:                                        "TestDoctor_Scheduler",
	`^bin/kubectl-plimsoll replay`:                                    "TestReplayOfHistory",
	`^bin/load-watcher`:                                               "TestService_PrometheusToScheduler",
	`^\$ curl -s 'http://localhost:2020/watcher`:                      "TestService_PrometheusToScheduler",
	`^kube-scheduler --config .* --validate-only`:                     "TestCommand_ValidateOnly",
	`^helm (install|upgrade) plimsoll (manifests/chart|plimsoll|oci)`: "TestManifests",
	`^helm template`:                                                  "TestManifests_MatchChart",
	`^helm test`:                                                      "TestHelmTest",
	`^helm rollback`:                                                  "Helm's own; no test has Helm's storage of releases",
	`^sed 's/-k8s1`:                                                   "TestManifests",
	`^sed -i`:                                                         "TestOwnImage",
	`^kubectl get events`:                                             "reads events of Kubernetes' own",
	`^kubectl get endpointslices`:                                     "reads an object of Kubernetes' own",
	`^kubectl -n kube-system (get pods|logs)`:                         "needs a kubelet",
	`^kubectl -n plimsoll-system rollout restart`:                     "needs a kubelet",
	`^kubectl create (secret|configmap)`:                              "Kubernetes' own; TestChart_RendersValidManifests mounts them",
	`^kubectl label namespace shop`:                                   "TestAdmission",
	`^kubectl annotate node`:                                          "TestAnnotation_Overrides",
	`^kubectl delete clusterrole|rolebinding plimsoll`:                "needs an install of version 0.1, which has no image",
	`^kubectl get pods -A --field-selector`:                           "TestFailover",
	`^kubectl -n plimsoll-system scale deployment`:                    "TestFailover",
	`^kubectl (apply|delete) -f manifests/stopgap`:                    "TestFailover",
	`^kubectl -n shop (get pod NAME|delete pods)`:                     "TestFailover",
	`^kubectl apply -f rbac.yaml`:                                     "TestManifests",
	`^(crictl|mkdir|cp|rm|printf|kubeadm|kubectl --kubeconfig)`:       "TestKubeadm_DocumentedCommands",
	`^oc `: "needs OpenShift; TestOpenShiftOperator applies the files",
	`^(gh|cosign|sha256sum|skopeo|curl -fLO|chmod)`: "needs a published release",
	`^kubectl krew`: "needs krew and a published release",
}

// program begins a command of the docs. Other indented blocks are formulas, outputs and YAML.
var program = regexp.MustCompile(
	`^(\$ |(kubectl|helm|oc|make|gh|cosign|sed|crictl|mkdir|cp|kubeadm|rm|printf|curl|chmod|skopeo|sha256sum|kube-scheduler) |bin/)`,
)

// commandsOf returns the commands in the indented blocks of a page, with the lines that continue them.
func commandsOf(page string) []string {
	var commands []string
	continued := false
	for line := range strings.Lines(page) {
		command := strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "$ "):
			continued = false
			continue
		case continued:
			commands[len(commands)-1] += " " + command
		case program.MatchString(command):
			commands = append(commands, command)
		default:
			continue
		}
		continued = strings.HasSuffix(command, `\`) || strings.HasSuffix(command, "|")
	}
	return commands
}

// Each command in the docs is run by a test, or has a reason why not.
func TestDocs_CommandsAreRun(t *testing.T) {
	pages := []string{"README.md", "manifests/chart/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/plugins/*.md"} {
		found, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	used := map[string]bool{}
	for _, page := range pages {
		for _, command := range commandsOf(string(read(t, filepath.FromSlash(page)))) {
			known := false
			for pattern := range documentedCommands {
				if regexp.MustCompile(pattern).MatchString(command) {
					known, used[pattern] = true, true
				}
			}
			if !known {
				t.Errorf("%s has the command %q: add the test that runs it, or the reason why none does", page, command)
			}
		}
	}
	tests := testNames(t)
	for pattern, by := range documentedCommands {
		if !used[pattern] {
			t.Errorf("no page has a command that matches %q", pattern)
		}
		if !strings.Contains(by, " ") && !slices.Contains(tests, by) {
			t.Errorf("there is no test %s, which should run %q", by, pattern)
		}
	}
}

// testNames returns the names of all tests of this repository.
func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range []string{"cmd", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
				names = append(names, match[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}
