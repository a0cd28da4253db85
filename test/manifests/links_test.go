package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const ofRepository = "https://github.com/plimsoll-scheduler/plimsoll/blob/main/"

var (
	linkPattern    = regexp.MustCompile(`(?m)\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fencePattern   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// GitHub makes an anchor of a heading in lower case, without punctuation, and with hyphens for spaces.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func anchorOf(heading string) string {
	return strings.ReplaceAll(strings.ToLower(punctuation.ReplaceAllString(heading, "")), " ", "-")
}

// TestLinks follows all links of pages to files of the repository, and to headings.
func TestLinks(t *testing.T) {
	pages := filesBelow(t, ".", ".md")
	for page, text := range pages {
		pages[page] = fencePattern.ReplaceAllString(text, "")
	}
	followed := 0
	for page, text := range pages {
		for _, match := range linkPattern.FindAllStringSubmatch(text, -1) {
			link := match[1] + match[2]
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			switch inRepository, ok := strings.CutPrefix(path, ofRepository); {
			case ok:
				target = filepath.Clean(inRepository)
			case strings.Contains(path, ":"):
				continue
			case path != "":
				target = filepath.Join(filepath.Dir(page), path)
			}
			followed++
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s links to %s: %v", page, link, err)
				continue
			}
			if anchor == "" {
				continue
			}
			if info.IsDir() {
				target = filepath.Join(target, "README.md")
			}
			found := false
			for _, heading := range headingPattern.FindAllStringSubmatch(pages[target], -1) {
				found = found || anchorOf(heading[1]) == anchor
			}
			if !found {
				t.Errorf("%s links to %s, but there is no such heading", page, link)
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were followed", followed)
	}
}

// wideLine is a line that cannot be broken: of a table, a heading, HTML, a command, or without a space.
var wideLine = regexp.MustCompile(`^ *([|#<]|[-*]? *\S+$)|^    `)

// TestDocs_Width finds lines of prose that are wider than those of code, for readers of the source.
func TestDocs_Width(t *testing.T) {
	const columns = 132
	pages := regexp.MustCompile(`^(README|CONTRIBUTING|SECURITY|docs/.+|manifests/.+)\.md$`)
	for page, text := range filesBelow(t, ".", ".md") {
		if !pages.MatchString(page) {
			continue
		}
		for line := range strings.Lines(fencePattern.ReplaceAllString(text, "")) {
			line = strings.TrimSuffix(line, "\n")
			if width := utf8.RuneCountInString(line); width > columns && !wideLine.MatchString(line) {
				t.Errorf("%s has %d columns, more than %d, in the line %q", page, width, columns, line)
			}
		}
	}
}
