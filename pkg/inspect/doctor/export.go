package doctor

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

// advice returns all advice as text.
func (c Result) advice() string {
	var b strings.Builder
	for _, a := range c.Advice {
		for _, part := range []string{a.Text, a.Command, a.YAML} {
			if part != "" {
				b.WriteString(strings.TrimSuffix(part, "\n") + "\n")
			}
		}
	}
	return b.String()
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Group   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitReason `xml:"failure,omitempty"`
	Skipped *junitReason `xml:"skipped,omitempty"`
	Output  string       `xml:"system-out,omitempty"`
}

// junitReason says why a check failed or was skipped.
type junitReason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Advice  string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, with a suite for each group. A check fails if its status is failOn or worse.
// Skipped checks never fail. Several results of a check are numbered, because readers keep one result for each name.
func (r *Report) WriteJUnit(w io.Writer, failOn Status) error {
	var all junitSuites
	results := map[string]int{}
	for _, c := range r.Checks {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != c.Group {
			all.Suites = append(all.Suites, junitSuite{Name: c.Group})
		}
		suite := &all.Suites[len(all.Suites)-1]
		row := junitCase{Group: c.Group, Name: c.ID}
		if results[c.ID]++; results[c.ID] > 1 {
			row.Name = fmt.Sprintf("%s (%d)", c.ID, results[c.ID])
		}
		switch {
		case c.needsFix() && (failOn == Warning || c.Status == Error):
			row.Failure = &junitReason{Message: c.Message, Type: string(c.Status), Advice: c.advice()}
			suite.Failures++
		case c.Status == Skipped:
			row.Skipped = &junitReason{Message: c.Message}
			suite.Skipped++
		default:
			row.Output = strings.TrimSuffix(c.Message+"\n"+c.advice(), "\n")
		}
		suite.Tests++
		suite.Cases = append(suite.Cases, row)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

const documentationURL = "https://github.com/plimsoll-scheduler/plimsoll/blob/main/docs/see-why.md#doctor"

// artifact returns the URI of the file of --config, or else a path made of the configuration's origin.
// GitHub's code scanning refuses a result without a path, which need not exist.
func (r *Report) artifact() string {
	path := filepath.ToSlash(cmp.Or(r.path, "cluster/scheduler"))
	u := url.URL{Path: path}
	if strings.HasPrefix(path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}

// object is an object of JSON.
type object = map[string]any

// WriteSARIF writes the report as SARIF 2.1.0, with all checks as rules. version is the program's. See
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
func (r *Report) WriteSARIF(w io.Writer, version string) error {
	var rules []object
	for _, id := range IDs() {
		rules = append(rules, object{"id": id, "helpUri": documentationURL})
	}
	where := object{"physicalLocation": object{"artifactLocation": object{"uri": r.artifact()}, "region": object{"startLine": 1}}}
	if r.Configuration != "" {
		where["logicalLocations"] = []object{{"fullyQualifiedName": r.Configuration}}
	}
	kinds := map[Status][2]string{
		OK: {"pass", "none"}, Skipped: {"notApplicable", "none"}, Warning: {"fail", "warning"}, Error: {"fail", "error"},
	}
	results := []object{}
	for _, c := range r.Checks {
		text := strings.TrimSuffix(c.Message+"\n"+c.advice(), "\n")
		results = append(results, object{
			"ruleId": c.ID, "kind": kinds[c.Status][0], "level": kinds[c.Status][1], "message": object{"text": text},
			"locations": []object{where},
		})
	}
	driver := object{"name": "kubectl-plimsoll doctor", "version": version, "informationUri": documentationURL, "rules": rules}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": driver}, "results": results}},
	})
}
