package manifests_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// documentedCommands are the commands of the docs, by a regular expression. The value is the test that runs the command or a part
// of it. With a space, it is the reason why no test does.
var documentedCommands = map[string]string{
	`^make playground`:                                                         "takes minutes; test/playground tests its scenarios",
	`^make build( KUBERNETES=1.35)?$`:                                          "TestMakefile_BuildOfMinor",
	`^make (build PGO=1|release|profile)`:                                      "takes minutes; TestRelease makes the files of a release",
	`^make build && bin/kube-scheduler`:                                        "TestTargetLoadPacking_WorkedExampleWithMetricsServer",
	`^make (bench|bench-quick|scale|test)$`:                                    "takes minutes to hours",
	`^bin/bench/schedulers`:                                                    "takes minutes to hours",
	`^make manifests`:                                                          "TestManifests_MatchChart",
	`^go test -bench`:                                                          "a benchmark takes minutes",
	`^kubectl plimsoll replay`:                                                 "TestCommand_Table and others of pkg/replay, without the name of the command",
	`^make quality`:                                                            "takes two minutes; its last step is TestSynthetic_RanksPoliciesAsRealTracesDo",
	`^make build && bin/kubectl-plimsoll top`:                                  "TestTop_Nodes",
	`^kubectl plimsoll top pods`:                                               "TestTop_Pods",
	`^(kubectl |bin/kubectl-)plimsoll ui`:                                      "TestUI",
	`^kubectl plimsoll top$`:                                                   "TestTop_Nodes",
	`^kubectl plimsoll doctor --check`:                                         "TestDocs_Checks",
	`^kubectl plimsoll doctor$`:                                                "TestDoctor_Relabeling",
	`^kubectl plimsoll explain`:                                                "TestExplain",
	`^kubectl plimsoll explain .* --last`:                                      "TestExplain_Last",
	`^kubectl plimsoll options`:                                                "TestCommand_Options",
	`^kubectl plimsoll version`:                                                "TestCommand_Version",
	`^kubectl plimsoll( completion --help)?$`:                                  "TestCommand_Help",
	`^kubectl[ -]plimsoll <TAB>`:                                               "TestCompletion",
	`^kubectl plimsoll shadow`:                                                 "TestShadow",
	`^kubectl plimsoll rebalance( --reb.*)?$`:                                  "TestRebalance",
	`^kubectl plimsoll rebalance --evict`:                                      "TestRebalance_Evict",
	`^kubectl -n plimsoll-system annotate configmap`:                           "TestRebalancer",
	`^kubectl plimsoll what-if --evict-all-in`:                                 "TestWhatIf_BeforeTheSwitch",
	`^kubectl plimsoll what-if -f`:                                             "TestWhatIf_NodesAndProfiles",
	`kubectl-plimsoll doctor$`:                                                 "TestDoctor_Scheduler",
	`^bin/load-watcher`:                                                        "TestService_PrometheusToScheduler",
	`^curl -s 'http://localhost:2020/watcher`:                                  "TestService_PrometheusToScheduler",
	`^kube-scheduler (--config .* )?--validate-only`:                           "TestCommand_ValidateOnly",
	`^kube-scheduler --version`:                                                "TestCommand_Version",
	`^helm (install|upgrade) plimsoll (manifests/chart|plimsoll|oci)`:          "TestManifests",
	`^helm template`:                                                           "TestManifests_MatchChart",
	`^helm test`:                                                               "TestHelmTest",
	`^helm (rollback|uninstall)`:                                               "Helm's own; no test has Helm's storage of releases",
	`^helm (install|upgrade)$`:                                                 "named without arguments",
	`^sed 's/-k8s1`:                                                            "TestManifests",
	`^sed -i`:                                                                  "TestOwnImage",
	`^kubectl get events`:                                                      "reads events of Kubernetes' own",
	`^kubectl get endpointslices`:                                              "reads an object of Kubernetes' own",
	`^kubectl -n plimsoll-system (get configmap|describe deployment)`:          "reads an object of Kubernetes' own",
	`^kubectl (describe|drain|patch|port-forward|version|cordon)`:              "Kubernetes' own, named without arguments",
	`^kubectl apply( -[fk])?$`:                                                 "Kubernetes' own, named without arguments",
	`^oc (version|secrets link)`:                                               "Kubernetes' own, named without arguments",
	`^kubectl delete -f `:                                                      "Kubernetes' own; TestManifests applies the files",
	`^kubectl -n plimsoll-system delete lease`:                                 "Kubernetes' own; it cleans up",
	`^kubectl -n kube-system (get pods|logs)`:                                  "needs a kubelet",
	`^kubectl -n plimsoll-system (rollout restart|logs)`:                       "needs a kubelet",
	`^kubectl -n monitoring port-forward`:                                      "needs a kubelet",
	`^kubectl create (secret|configmap)`:                                       "Kubernetes' own; TestChart_RendersValidManifests mounts them",
	`^kubectl label namespace shop`:                                            "TestAdmission",
	`^kubectl annotate node worker`:                                            "TestAnnotation_Overrides",
	`^kubectl (-n kube-system )?delete (clusterrole|rolebinding)`:              "needs an install of version 0.1, which has no image",
	`^kubectl get pods -A --field-selector`:                                    "TestFailover",
	`^kubectl -n plimsoll-system scale deployment`:                             "TestFailover",
	`^kubectl (apply|delete) -f manifests/stopgap`:                             "TestFailover",
	`^kubectl -n shop (get pod NAME|delete pods)`:                              "TestFailover",
	`^kubectl apply -f rbac.yaml`:                                              "TestManifests",
	`^(crictl (pull|ps)|mkdir|cp|rm|printf|kubeadm init|kubectl --kubeconfig)`: "TestKubeadm_DocumentedCommands",
	`^kubeadm upgrade`:                                                         "needs a cluster of kubeadm and a newer minor",
	`^oc `:                                                                     "needs OpenShift; TestOpenShiftOperator applies the files",
	`^(gh|cosign|sha256sum|skopeo|curl -fLO|chmod|git checkout)`:               "needs a published release",
	`^kubectl krew`:                                                            "needs krew and a published release",
}

// Each command in the docs is run by a test, or has a reason why not. A function in the test's file has the flags of own programs;
// the cluster's harness may have some of them.
func TestDocs_CommandsAreRun(t *testing.T) {
	used := map[string]bool{}
	tests, harness := testFiles(t), string(read(t, "test", "cluster", "parts.go"))
	for _, command := range documented.Commands(t, root) {
		known := false
		for pattern, by := range documentedCommands {
			if !regexp.MustCompile(pattern).MatchString(command.Text) {
				continue
			}
			known, used[pattern] = true, true
			if file, ok := tests[by]; ok && !hasFunction(file, harness, wordsOf(command.Text)) {
				t.Errorf("%s has the command %q, but the file of %s has no function with %q", command.Page, command.Text, by, wordsOf(command.Text))
			}
		}
		if !known {
			t.Errorf("%s has the command %q: add the test that runs it, or the reason why none does", command.Page, command.Text)
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

// hasFunction reports whether the file has the subcommand, and one of its functions the flags. The harness may have some of them.
func hasFunction(file, harness string, words []string) bool {
	return slices.ContainsFunc(strings.Split(file, "\nfunc "), func(function string) bool {
		return !slices.ContainsFunc(words, func(word string) bool {
			used := regexp.MustCompile("[\"` ]" + word + "[\"`= ]")
			return !used.MatchString(function) && !used.MatchString(harness) && (strings.HasPrefix(word, "--") || !used.MatchString(file))
		})
	})
}

// foreignFlags are flags of other programs that the docs name alone.
var foreignFlags = map[string]string{
	"event-ttl": "kube-apiserver", "feature-gates": "kube-apiserver", "kube-version": "helm", "patches": "kubeadm",
	"runtime-config": "kube-apiserver",
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
