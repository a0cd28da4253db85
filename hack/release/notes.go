package main

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// releaseNotes returns the section of a version from a changelog, without its heading. Each paragraph is one line. The form is that
// of Keep a Changelog. Links to files of the repository lead to those of the version, since the notes are read elsewhere. A
// pre-release without a section of its own has that of the version which it leads to.
func releaseNotes(changelog, version string) (string, error) {
	number := strings.TrimPrefix(version, "v")
	section, ok := sectionOf(changelog, number)
	if !ok {
		section, ok = sectionOf(changelog, strings.TrimSuffix(number, semver.Prerelease(version)))
	}
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: write what changed for users below this heading",
			"## ["+number+"] - YYYY-MM-DD")
	}
	if section == "" {
		return "", fmt.Errorf("the section of %s in CHANGELOG.md is empty: write what changed for users", number)
	}
	return toFile.ReplaceAllString(unwrap(section), "]("+source+"/blob/"+version+"/$1)") + "\n", nil
}

// toFile matches a link to a file of the repository.
var toFile = regexp.MustCompile(`\]\(([^():#][^():]*)\)`)

func sectionOf(changelog, number string) (string, bool) {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(number) + `\] - \d{4}-\d\d-\d\d$`)
	found := heading.FindStringIndex(changelog)
	if found == nil {
		return "", false
	}
	section := changelog[found[1]:]
	// The section ends with the next one, or with the links below the last one.
	if end := regexp.MustCompile(`(?m)^(## |\[[^\]]+\]: )`).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	return strings.TrimSpace(section), true
}

// block matches a line that is not the continuation of the one above it.
var block = regexp.MustCompile("^\\s*([-*+] |\\d+[.)] |#|>|\\||```|$)")

// unwrap joins the lines of each paragraph and list item. GitHub shows line breaks in a release's notes. It keeps fenced code.
func unwrap(markdown string) string {
	var text strings.Builder
	code, above := false, ""
	for line := range strings.SplitSeq(markdown, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		paragraph := above != "" && !strings.HasPrefix(above, "#") && !strings.HasPrefix(above, "|")
		switch {
		case code || fence || block.MatchString(line) || !paragraph:
			text.WriteString("\n" + line)
			above = strings.TrimSpace(line)
		default:
			text.WriteString(" " + strings.TrimSpace(line))
		}
		if fence {
			code, above = !code, ""
		}
	}
	return strings.TrimPrefix(text.String(), "\n")
}

// imageNotes returns the section of the images and the chart in a release's notes, from the lines of images.txt.
func imageNotes(list string) string {
	var text strings.Builder
	text.WriteString("\n### Images and chart\n\n")
	for line := range strings.Lines(list) {
		digest, image, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&text, "- `%s@sha256:%s`\n", image, digest)
	}
	return text.String()
}
