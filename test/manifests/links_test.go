package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ofRepository begins the links of pages that are read outside of the repository too.
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
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "dist") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		pages[path] = fencePattern.ReplaceAllString(string(text), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	followed := 0
	for page, text := range pages {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range linkPattern.FindAllStringSubmatch(text, -1) {
			link := match[1] + match[2]
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			switch inRepository, ok := strings.CutPrefix(path, ofRepository); {
			case ok:
				target = filepath.Join(root, inRepository)
			case strings.Contains(path, ":"):
				continue
			case path != "":
				target = filepath.Join(filepath.Dir(page), path)
			}
			followed++
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
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
				t.Errorf("%s links to %s, but there is no such heading", name, link)
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were followed", followed)
	}
}
