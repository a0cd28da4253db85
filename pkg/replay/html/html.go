// Package html renders a replay's report as one HTML page. The page holds everything it needs, asks no server for anything, and
// opens from a file.
//
// Lines are drawn by uPlot 1.6.32 (MIT, https://github.com/leeoniya/uPlot): its files from npm and its licence are in uplot/,
// unmodified. uPlot is 51 kB and draws lines with axes and a cursor, which is all that is needed here. echarts, with which
// go-echarts draws, is about 1 MB: more than all else on most pages. A heat map is a few lines on a canvas of one pixel per node and
// step. Bars and tables are HTML, so that they need no script and print well.
package html

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

//go:embed page.gohtml page.css page.js uplot/uPlot.iife.min.js uplot/uPlot.min.css uplot/LICENSE
var files embed.FS

// Write renders r as one HTML page. The page is below 5 MB however many nodes, steps, policies and runs r has: beyond that, the
// columns of the heat maps become wider, and the page says so. It returns w's error.
func Write(w io.Writer, r *report.Report) error {
	content, err := template.New("page.gohtml").ParseFS(files, "page.gohtml")
	if err != nil {
		return fmt.Errorf("parse the report's template: %w", err)
	}
	licence := "/*\n" + read("uplot/LICENSE") + "*/\n"
	p := newPage(r)
	p.Style = template.CSS(licence + read("uplot/uPlot.min.css") + read("page.css"))
	p.Script = template.JS(licence + read("uplot/uPlot.iife.min.js") + read("page.js"))
	p.ScriptHash = scriptHash(p.Script)

	// A failed template must not leave half a page behind.
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

// read returns an embedded file.
func read(name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // Unreachable: the compiler checks the names of embedded files.
	}
	return string(content)
}

// scriptHash is how a Content-Security-Policy names the one script that may run.
func scriptHash(script template.JS) string {
	sum := sha256.Sum256([]byte(script))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
