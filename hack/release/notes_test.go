package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestReleaseNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-02-03\n\n### Added\n\n- This.\n\n## [1.1.0] - 2026-01-02\n\n- [Past](docs/a.md#b) and\n  [gone](https://a.b/c).\n\n" +
		"## [1.0.0-rc.1] - 2025-01-02\n\n[1.1.0]: https://example.com\n"
	for _, tc := range []struct{ version, want, wantError string }{
		{"v1.2.0", "### Added\n\n- This.\n", ""},
		{"v1.1.0", "- [Past](https://github.com/plimsoll-scheduler/plimsoll/blob/v1.1.0/docs/a.md#b) and [gone](https://a.b/c).\n", ""},
		{"v1.2.0-rc.1", "### Added\n\n- This.\n", ""},
		{"v1.0.0-rc.1", "", "is empty"},
		{"v1.0.0", "", `no section "## [1.0.0] - YYYY-MM-DD"`},
		{"v1.2", "", "no section"},
	} {
		t.Run(tc.version, func(t *testing.T) {
			notes, err := releaseNotes(changelog, tc.version)
			if notes != tc.want || (err != nil) != (tc.wantError != "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("the notes are %q and the error %v, want %q and %q", notes, err, tc.want, tc.wantError)
			}
		})
	}
	t.Run("of the version that the chart has", func(t *testing.T) {
		text := value(os.ReadFile("../../CHANGELOG.md"))(t)
		chart := value(os.ReadFile("../../manifests/chart/Chart.yaml"))(t)
		version := regexp.MustCompile(`(?m)^version: (.+)$`).FindSubmatch(chart)
		if _, err := releaseNotes(string(text), "v"+string(version[1])); err != nil {
			t.Error(err)
		}
	})
}

func TestUnwrap(t *testing.T) {
	const wrapped = "### Added\nA paragraph\nof two lines.\n\n- An item\n  of two lines\n  - and `one`\n    below\n- Next\n\n1. One\n   more\n\n" +
		"```\ncode\nstays\n```\nAfter\nit\n\n| a |\n|---|\n| b |"
	const want = "### Added\nA paragraph of two lines.\n\n- An item of two lines\n  - and `one` below\n- Next\n\n1. One more\n\n" +
		"```\ncode\nstays\n```\nAfter it\n\n| a |\n|---|\n| b |"
	if got := unwrap(wrapped); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
