package ui

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
)

//go:embed page.gohtml page.css answers.js page.js
var files embed.FS

// page is the HTML page.
type page struct {
	// policy is the Content-Security-Policy.
	policy  string
	content []byte
}

// newPage renders the page. With the JSON of a snapshot it needs no server; without one it has no data.
func newPage(snapshot json.RawMessage) (*page, error) {
	content, err := template.New("page.gohtml").ParseFS(files, "page.gohtml")
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	style := webserver.Theme + webserver.ReadPage(files, "page.css")
	script := webserver.Script
	for _, name := range []string{"answers.js", "page.js"} {
		script += webserver.ReadPage(files, name)
	}
	policy := strings.Join([]string{
		"default-src 'none'", "script-src " + webserver.CSPSource(script), "style-src " + webserver.CSPSource(style), "img-src data:",
		"base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
	p := &page{policy: policy + "; connect-src 'self'; frame-ancestors 'none'"}
	var b bytes.Buffer
	err = content.Execute(&b, struct {
		Style    template.CSS
		Script   template.JS
		Policy   string
		Snapshot json.RawMessage
	}{template.CSS(style), template.JS(script), policy, snapshot})
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
