package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestFailover runs the two replicas of the manifest beside a default scheduler, and stops them one after the other.
func TestFailover(t *testing.T) {
	e := start(t, cluster.Options{Scheduler: header, AuditLog: true})
	e.apply(manifest(t, "second-scheduler.yaml"))
	for _, name := range []string{"worker-1", "worker-2"} {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
	}
	election := e.election()
	c, _ := e.scheduler(system, "plimsoll")
	leader := e.run(c)
	e.eventually("the first replica to lead", func() bool { return e.holder(system, "plimsoll") != "" })
	c, _ = e.scheduler(system, "plimsoll")
	c.Name += "-standby"
	standby := e.run(c)

	// Each part starts from the state that the previous one leaves.
	t.Run("when the leader is killed, the other replica takes over and binds all pods", func(t *testing.T) {
		e.in(t).wantTakeover(election, leader)
	})
	t.Run("a leader that stops releases the lease", func(t *testing.T) {
		e := e.in(t)
		before := e.holder(system, "plimsoll")
		e.must(standby.Stop())
		if after := e.holder(system, "plimsoll"); before == "" || after != "" {
			t.Errorf("the holder of the lease was %q and is %q, must be none", before, after)
		}
	})
	t.Run("the stopgap places pods while Plimsoll has no replicas", func(t *testing.T) { e.in(t).wantStopgap(standby) })
	t.Run("pending pods can be given to the default scheduler", func(t *testing.T) { e.in(t).wantPodsGivenBack() })
}

func (e environment) election() componentbaseconfig.LeaderElectionConfiguration {
	e.t.Helper()
	config := check.Value(e.Client.CoreV1().ConfigMaps(system).Get(e.ctx, "plimsoll", metav1.GetOptions{}))(e.t)
	file := filepath.Join(e.t.TempDir(), "config.yaml")
	write(e.t, file, config.Data["config.yaml"])
	c := check.Value(options.LoadConfigFromFile(klog.Background(), file))(e.t)
	return c.LeaderElection
}

func (e environment) wantTakeover(election componentbaseconfig.LeaderElectionConfiguration, leader *cluster.Process) {
	holder := e.holder(system, "plimsoll")
	labels := map[string]string{"batch": "arriving"}
	arriving := e.Arrive(e.ctx, 100*time.Millisecond, func(number int) cluster.Pod {
		return tinyPod(fmt.Sprintf("arriving-%d", number), labels)
	})
	defer func() { _, _ = arriving.End() }()
	check.Value(e.WaitBound(e.ctx, labels, 5))(e.t)

	e.must(leader.Kill())
	killed := time.Now()
	var next time.Time
	e.eventually("a binding after the leader is gone", func() bool {
		for _, event := range e.events(metav1.NamespaceDefault, "Scheduled") {
			if at := event.EventTime.Time; at.After(killed) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		return !next.IsZero()
	})
	created := check.Value(arriving.End())(e.t)
	took := next.Sub(killed)
	e.t.Logf("failover: the next binding came %.1f s after the leader was killed; the lease is for %s, tried for every %s",
		took.Seconds(), election.LeaseDuration.Duration, election.RetryPeriod.Duration)
	// The other replica reads the lease once per retry period, with jitter. It waits for the lease duration since it last saw a
	// renewal. That may be a retry period after the renewal. busy is for a busy machine.
	const busy = time.Minute
	if most := election.LeaseDuration.Duration + time.Duration(
		2*(1+leaderelection.JitterFactor)*float64(election.RetryPeriod.Duration),
	) + busy; took > most {
		e.t.Errorf("it took %s, want at most %s", took, most)
	}
	if now := e.holder(system, "plimsoll"); now == "" || now == holder {
		e.t.Errorf("the lease was held by %q and is held by %q", holder, now)
	}
	bound := check.Value(e.WaitBound(e.ctx, labels, created))(e.t)
	check.Equal(e.t, "pods are bound", created, len(bound))
}

// documented returns the command that contains text, from the section "The scheduler is down" of docs/troubleshoot.md.
func documented(t *testing.T, text string) string {
	t.Helper()
	_, section, _ := strings.Cut(string(readFile(t, root, "docs", "troubleshoot.md")), "\n### The scheduler is down\n")
	var commands []string
	continued := false
	for line := range strings.Lines(section) {
		command := strings.TrimSpace(line)
		if continued {
			commands[len(commands)-1] += "\n" + command
		} else if strings.HasPrefix(line, "    ") && strings.HasPrefix(command, "kubectl ") {
			commands = append(commands, command)
		} else {
			continue
		}
		continued = strings.HasSuffix(command, "|") || strings.HasSuffix(command, `\`)
	}
	var found []string
	for _, command := range commands {
		if strings.Contains(command, text) {
			found = append(found, command)
		}
	}
	check.Require(t, fmt.Sprintf("commands of docs/troubleshoot.md contain %q: %q", text, commands), 1, len(found))
	return found[0]
}

// shell runs a documented command as an administrator in the root of this repository, and returns its output. replace holds
// pairs of an old and a new text.
func (e environment) shell(command string, replace ...string) string {
	e.t.Helper()
	command = strings.NewReplacer(replace...).Replace(command)
	cmd := exec.CommandContext(e.ctx, "bash", "-o", "pipefail", "-c", command)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.AdminKubeconfig, "PATH="+binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	e.t.Logf("%s\n%s", command, out)
	return string(out)
}

// waiting creates two pending pods in a namespace: one of a ReplicaSet, and one without an owner.
func (e environment) waiting(namespace string) {
	e.t.Helper()
	e.createNamespace(namespace, nil)
	for _, name := range []string{"owned", "alone"} {
		e.createPod(podIn(namespace, name, func(p *corev1.Pod) {
			p.Spec.SchedulerName = profile
			if name == "owned" {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "a"}}
			}
		}))
	}
}

func (e environment) wantStopgap(plimsoll *cluster.Process) {
	e.waiting("market")
	list := e.shell(documented(e.t, "custom-columns"))
	check.Contains(e.t, strings.Join(strings.Fields(list), " "), "market owned ReplicaSet web", "market alone <none> <none>")

	e.shell(documented(e.t, "--replicas=0"))
	e.shell(documented(e.t, "apply -f manifests/stopgap"))
	e.waitRights(manifest(e.t, "stopgap/stopgap.yaml"))
	d := check.Value(e.Client.AppsV1().Deployments(system).Get(e.ctx, "plimsoll", metav1.GetOptions{}))(e.t)
	check.Equal(e.t, "Plimsoll replicas", 0, *d.Spec.Replicas)
	c, _ := e.scheduler(system, "plimsoll-stopgap")
	c.Program = "stock-kube-scheduler"
	stopgap := e.run(c)
	for _, name := range []string{"owned", "alone"} {
		e.waitBoundIn("market", name)
	}

	// The stopgap loses its permissions before it ends, so it cannot release the lease, which expires.
	e.wantNothingForbidden(account(system, "plimsoll-stopgap"), stopgap)
	e.shell(documented(e.t, "--replicas=2"))
	e.shell(documented(e.t, "delete -f manifests/stopgap"))
	e.must(stopgap.Stop())
	e.must(plimsoll.Start(e.ctx))
	e.createPod(podIn("market", "after", func(p *corev1.Pod) { p.Spec.SchedulerName = profile }))
	e.waitBoundIn("market", "after")
	e.must(plimsoll.Stop())
}

func (e environment) wantPodsGivenBack() {
	const namespace = "shop"
	e.waiting(namespace)
	e.createPod(podIn(namespace, "running", func(p *corev1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = profile, "worker-1" }))
	e.createPod(podIn(namespace, "another", func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }))

	e.shell(documented(e.t, "replace --force"), "NAME", "alone")
	e.waitBoundIn(namespace, "alone")
	e.shell(documented(e.t, "delete pods"))
	pods := check.Value(e.Client.CoreV1().Pods(namespace).List(e.ctx, metav1.ListOptions{}))(e.t)
	var left []string
	for _, p := range pods.Items {
		left = append(left, p.Name)
	}
	if strings.Join(left, " ") != "alone another running" {
		e.t.Errorf("the pods are %v, want the bound pods, and the pod that waits for another scheduler", left)
	}
}
