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
func (c Check) advice() string {
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
	Group   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Skipped *junitFailure `xml:"skipped,omitempty"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Advice  string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML, with a suite for each group. Checks fail from the status failOn on.
// Several results of a check are numbered, because readers keep one result for each name.
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
			row.Failure = &junitFailure{Message: c.Message, Type: string(c.Status), Advice: c.advice()}
			suite.Failures++
		case c.Status == Skipped:
			row.Skipped = &junitFailure{Message: c.Message}
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

// The part of SARIF 2.1.0 that a report needs: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string `json:"id"`
		HelpURI string `json:"helpUri"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Kind      string          `json:"kind"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysicalLocation  `json:"physicalLocation"`
		Logical  []sarifLogicalLocation `json:"logicalLocations,omitempty"`
	}
	sarifPhysicalLocation struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogicalLocation struct {
		Name string `json:"fullyQualifiedName"`
	}
)

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

// WriteSARIF writes the report as SARIF 2.1.0, with all checks as rules. version is the program's.
func (r *Report) WriteSARIF(w io.Writer, version string) error {
	run := sarifRun{
		Tool:    sarifTool{sarifDriver{Name: "kubectl-plimsoll doctor", Version: version, InformationURI: documentationURL}},
		Results: []sarifResult{},
	}
	for _, id := range IDs() {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: id, HelpURI: documentationURL})
	}
	where := []sarifLocation{{Physical: sarifPhysicalLocation{sarifArtifact{r.artifact()}, sarifRegion{1}}}}
	if r.Configuration != "" {
		where[0].Logical = []sarifLogicalLocation{{Name: r.Configuration}}
	}
	kinds := map[Status][2]string{
		OK: {"pass", "none"}, Skipped: {"notApplicable", "none"}, Warning: {"fail", "warning"}, Error: {"fail", "error"},
	}
	for _, c := range r.Checks {
		kind := kinds[c.Status]
		text := strings.TrimSuffix(c.Message+"\n"+c.advice(), "\n")
		run.Results = append(run.Results, sarifResult{c.ID, kind[0], kind[1], sarifMessage{text}, where})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}
