package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/webpage"
)

//go:embed page.gohtml page.css page.js
var files embed.FS

// page is the HTML page, which has no data of a cluster unless it is of a saved snapshot.
type page struct {
	// Policy is the Content-Security-Policy.
	policy  string
	content []byte
}

// newPage renders the page.
func newPage() (*page, error) {
	content, err := template.New("page.gohtml").ParseFS(files, "page.gohtml")
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	style, script := webpage.Theme+read("page.css"), webpage.Script+read("page.js")
	p := &page{policy: strings.Join([]string{
		"default-src 'none'", "script-src " + webpage.Hash(script), "style-src " + webpage.Hash(style), "connect-src 'self'",
		"img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")}
	var b bytes.Buffer
	err = content.Execute(&b, struct {
		Style  template.CSS
		Script template.JS
	}{template.CSS(style), template.JS(script)})
	if err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	p.content = b.Bytes()
	return p, nil
}

func (p *page) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(p.content) // the browser has gone
}

// read returns an embedded file.
func read(name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // Unreachable: the compiler checks the names of embedded files.
	}
	return string(content)
}
