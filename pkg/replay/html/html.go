// Package html renders a replay's report as one HTML page, which needs no server. Bars and tables are HTML, which needs no script
// and prints well.
package html

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"

	"github.com/plimsoll-scheduler/plimsoll/internal/webpage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

//go:embed page.gohtml page.css page.js
var files embed.FS

// Write renders r as one HTML page of less than 5 MB. So columns of a large heat map cover more
// time, and a note says so.
func Write(w io.Writer, r *report.Report) error {
	content, err := template.New("page.gohtml").ParseFS(files, "page.gohtml")
	if err != nil {
		return fmt.Errorf("parse the report's template: %w", err)
	}
	p := newPage(r)
	p.Style = template.CSS(webpage.ChartStyle() + webpage.Theme + webpage.Read(files, "page.css"))
	p.Script = template.JS(webpage.ChartScript() + webpage.Script + webpage.Read(files, "page.js"))
	p.ScriptHash = webpage.CSPSource(string(p.Script))

	// After a failure, no partial page is written.
	var page bytes.Buffer
	if err := content.Execute(&page, p); err != nil {
		return fmt.Errorf("render the report: %w", err)
	}
	_, err = w.Write(page.Bytes())
	return err
}

// WriteFile renders r to a file.
func WriteFile(file string, r *report.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, r), f.Close())
}
