package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// documentedCommands are the commands of the docs, by a regular expression. The value is the test that runs the command or a part
// of it. With a space, it is the reason why no test does.
var documentedCommands = map[string]string{
	`^make playground`:                                                "takes nine minutes; test/playground tests its scenarios",
	`^make build( K|$)`:                                               "TestMakefile_BuildOfMinor",
	`^make build && bin/kube-scheduler`:                               "TestTargetLoadPacking_WorkedExampleWithMetricsServer",
	`^kubectl plimsoll replay`:                                        "TestReplay_Rebalance",
	`^make quality`:                                                   "takes two minutes; its last step is TestSynthetic_RanksPoliciesAsRealTracesDo",
	`^make build && bin/kubectl-plimsoll top`:                         "TestTop_Nodes",
	`^\$ kubectl plimsoll top pods`:                                   "TestTop_Pods",
	`^kubectl plimsoll ui`:                                            "TestUI",
	`^\$ kubectl plimsoll top$`:                                       "TestTop_Nodes",
	`^\$ kubectl plimsoll doctor`:                                     "TestDoctor_Relabeling",
	`^\$ kubectl plimsoll explain`:                                    "TestExplain",
	`^kubectl plimsoll explain .* --last`:                             "TestExplain_Last",
	`^\$ kubectl plimsoll requests`:                                   "TestRequests_CommandsApply",
	`^\$ kubectl plimsoll shadow`:                                     "TestShadow",
	`^kube-scheduler shadow`:                                          "TestShadow",
	`^\$ kubectl plimsoll rebalance`:                                  "TestRebalance",
	`^kubectl plimsoll rebalance --evict`:                             "TestRebalance_Evict",
	`^kubectl -n plimsoll-system annotate configmap`:                  "TestRebalancer",
	`^kubectl get pods -A -o jsonpath=.*deletion-cost`:                "TestRebalancer_DeletionCost",
	`^kubectl -n "\$namespace" annotate pod`:                          "TestRebalancer_DeletionCost",
	`^kubectl get nodes -o jsonpath=.*cordoned`:                       "TestRebalancer_Free",
	`^kubectl (uncordon|annotate node) "\$node"`:                      "TestRebalancer_Free",
	`^kubectl annotate node NODE`:                                     "TestRebalancer_Free",
	`^\$ kubectl plimsoll what-if`:                                    "TestWhatIf_NodesAndProfiles",
	`kubectl-plimsoll doctor$`:                                        "TestDoctor_Scheduler",
	`^bin/kubectl-plimsoll replay`:                                    "TestReplay_Table",
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
	`^kubectl -n monitoring port-forward`:                             "needs a kubelet",
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

var program = regexp.MustCompile(
	`^(\$ |(kubectl|helm|oc|make|gh|cosign|sed|crictl|mkdir|cp|kubeadm|rm|printf|curl|chmod|skopeo|sha256sum|kube-scheduler) |bin/)`,
)

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

// Each command in the docs is run by a test, or has a reason why not. The test's file, or the cluster's, has the words of own programs.
func TestDocs_CommandsAreRun(t *testing.T) {
	pages := []string{"README.md", "manifests/chart/README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/plugins/*.md"} {
		found := check.Value(fs.Glob(os.DirFS(root), pattern))(t)
		pages = append(pages, found...)
	}
	used := map[string]bool{}
	tests, harness := testFiles(t), string(read(t, "test", "cluster", "parts.go"))
	for _, page := range pages {
		for _, command := range commandsOf(string(read(t, filepath.FromSlash(page)))) {
			known := false
			for pattern, by := range documentedCommands {
				if !regexp.MustCompile(pattern).MatchString(command) {
					continue
				}
				known, used[pattern] = true, true
				for _, word := range wordsOf(command) {
					if file, ok := tests[by]; ok && !strings.Contains(file+harness, `"`+word) {
						t.Errorf("%s has the command %q, but the file of %s has no %q", page, command, by, word)
					}
				}
			}
			if !known {
				t.Errorf("%s has the command %q: add the test that runs it, or the reason why none does", page, command)
			}
		}
	}
	for pattern, by := range documentedCommands {
		if !used[pattern] {
			t.Errorf("no page has a command that matches %q", pattern)
		}
		if _, ok := tests[by]; !ok && !strings.Contains(by, " ") {
			t.Errorf("there is no test %s, which should run %q", by, pattern)
		}
	}
}

// ownCommand is a command of this project's programs; its first group is the subcommand.
var ownCommand = regexp.MustCompile(`(?:kubectl[ -]plimsoll|kube-scheduler|load-watcher)(?: ([a-z][a-z-]+))?( .*)?$`)

// wordsOf returns the subcommand and the flags of a command of this project's programs.
func wordsOf(command string) []string {
	own := ownCommand.FindStringSubmatch(command)
	if own == nil {
		return nil
	}
	words := regexp.MustCompile(`--[a-z-]+`).FindAllString(strings.TrimSuffix(own[2], "--help"), -1)
	if own[1] != "" {
		words = append(words, own[1])
	}
	return words
}

// testFiles returns the text of the file of each test of this repository, by the name of the test.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range []string{"cmd", "pkg", "test"} {
		for _, text := range filesBelow(t, folder, "_test.go") {
			for _, match := range declaration.FindAllStringSubmatch(text, -1) {
				files[match[1]] = text
			}
		}
	}
	return files
}
