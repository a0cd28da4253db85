package ui

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

//go:embed page.gohtml page.css answers.js page.js
var files embed.FS

type page struct {
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

// Kind is the kind of a snapshot's JSON.
const Kind = "ClusterLoads"

// Take returns a snapshot of the source, and of the checks' results.
func Take(ctx context.Context, o Options) (*State, error) {
	nodes, err := o.Source.Nodes(ctx, top.Selection{Order: top.ByName})
	if err != nil {
		return nil, err
	}
	lend := func(_ context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
		return o.Source.Lend(of, use)
	}
	return newState(nodes, o.Source.Waiting(), o.Context, check(ctx, o.Check, lend, clock.RealClock{})), nil
}

// WriteHTMLFile writes a page of the snapshot that needs no server and asks for nothing. Only the user can read the file.
func (s *State) WriteHTMLFile(name string) error {
	first, err := (*state)(nil).next(s)
	if err != nil {
		return err
	}
	page, err := newPage(first.full())
	if err != nil {
		return err
	}
	return boundedfile.WritePrivate(name, page.content)
}
