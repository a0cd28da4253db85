package main

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// tools matches packages that stand on the scheduler, and that it must not link.
var tools = regexp.MustCompile(`(?m)^github\.com/plimsoll-scheduler/plimsoll/pkg/(sim|cluster|inspect|rebalanc\w*|replay|ui|loadwatcher)(/.*)?$`)

func TestScheduler_LinksNoTool(t *testing.T) {
	packages := check.Value(exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output())(t)
	if !regexp.MustCompile(`(?m)^github\.com/plimsoll-scheduler/plimsoll/pkg/plugins$`).Match(packages) {
		t.Errorf("no plugins in\n%s", packages)
	}
	if linked := tools.FindAllString(string(packages), -1); linked != nil {
		t.Errorf("the scheduler links %q", linked)
	}
}
