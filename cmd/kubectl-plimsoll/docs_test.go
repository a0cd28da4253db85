package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// TestDocs_Checks expects the docs to name groups and checks that exist.
func TestDocs_Checks(t *testing.T) {
	exist := slices.Concat(doctor.Groups(newRooms().checks...), doctor.IDs(newRooms().checks...))
	for _, command := range documented.Commands(t, "../..") {
		if _, selected, ok := strings.Cut(command.Text, "doctor --check "); ok {
			for name := range strings.SplitSeq(selected, ",") {
				if !slices.Contains(exist, name) {
					t.Errorf("%s: %s: no group or check has the name %q", command.Page, command.Text, name)
				}
			}
		}
	}
}

// TestDocs_DoctorIDs expects a row of docs/see-why.md for each group, with the ids of its checks.
func TestDocs_DoctorIDs(t *testing.T) {
	content := check.Value(os.ReadFile("../../docs/see-why.md"))(t)
	ids := map[string][]string{}
	for _, id := range doctor.IDs(newRooms().checks...) {
		group, name, _ := strings.Cut(id, ".")
		ids[group] = append(ids[group], "`"+name+"`")
	}
	for _, group := range doctor.Groups(newRooms().checks...) {
		check.Contains(t, string(content), "| `"+group+"` | "+strings.Join(ids[group], ", ")+" |")
	}
}
