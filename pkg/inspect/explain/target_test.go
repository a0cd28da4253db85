package explain_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
)

func TestParseTarget(t *testing.T) {
	for args, want := range map[string]string{
		"web-1": "Pod web-1", "pod/web-1": "Pod web-1", "po web-1": "Pod web-1", "deploy/web": "Deployment web", "deployments web": "Deployment web",
		"Deployment.apps/web": "Deployment web", "deployments.v1.apps web": "Deployment web", "rs/web-1": "ReplicaSet web-1", "sts/db": "StatefulSet db",
		"rc/old": "ReplicationController old", "jobs.batch/sum": "Job sum", "cj/nightly": "CronJob nightly", "cronjob nightly": "CronJob nightly",
	} {
		if target, err := explain.ParseTarget(strings.Fields(args)); err != nil || target.Kind.Kind+" "+target.Name != want {
			t.Errorf("%s: %s %s, error %v; want %s", args, target.Kind.Kind, target.Name, err, want)
		}
	}
}

func TestParseTarget_Errors(t *testing.T) {
	for args, want := range map[string]string{
		"deploy/": "write TYPE/NAME", "/web": `type "": write one of pod, deployment,`, "pod/web/1": "write TYPE/NAME", "ds/agent": `type "ds"`,
		"deployment.batch/web": `type "deployment.batch"`, "web-1 web-2": `type "web-1"`, "a b c": "write one object", "po/a po/b": "write one object",
		"ns/shop": "write: kubectl plimsoll what-if --evict-all-in shop", "namespace shop": "write: kubectl plimsoll what-if --evict-all-in shop",
	} {
		if _, err := explain.ParseTarget(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", args, err, want)
		}
	}
}
