package doctor

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleReport() *Report {
	return &Report{
		Configuration: "ConfigMap plimsoll-system/plimsoll",
		path:          "cluster/configmap/plimsoll-system/plimsoll",
		Checks: []Result{
			{Group: "source", ID: "source.tls", Status: OK, Message: "the certificate is <valid>"},
			{Group: "source", ID: "source.answers", Status: Error, Message: "connection refused", Advice: []Advice{
				{Text: "Start it.", Command: "kubectl get pods"},
			}},
			{Group: "nodes", ID: "nodes.measured", Status: Warning, Message: "nodes without load: 1 of 2"},
			{Group: "nodes", ID: "nodes.nearest", Status: Skipped, Message: "does not apply"},
		},
	}
}

func TestWriteJUnit(t *testing.T) {
	for failOn, want := range map[Status]string{
		Warning: `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="source" tests="2" failures="1" errors="0" skipped="0">
    <testcase classname="source" name="source.tls">
      <system-out>the certificate is &lt;valid&gt;</system-out>
    </testcase>
    <testcase classname="source" name="source.answers">
      <failure message="connection refused" type="error">Start it.&#xA;kubectl get pods&#xA;</failure>
    </testcase>
  </testsuite>
  <testsuite name="nodes" tests="2" failures="1" errors="0" skipped="1">
    <testcase classname="nodes" name="nodes.measured">
      <failure message="nodes without load: 1 of 2" type="warning"></failure>
    </testcase>
    <testcase classname="nodes" name="nodes.nearest">
      <skipped message="does not apply"></skipped>
    </testcase>
  </testsuite>
</testsuites>
`,
		Error: `    <testcase classname="nodes" name="nodes.measured">
      <system-out>nodes without load: 1 of 2</system-out>
    </testcase>
`,
	} {
		var b bytes.Buffer
		if err := sampleReport().WriteJUnit(&b, failOn); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("from %s on (-want +got):\n%s", failOn, cmp.Diff(want, b.String()))
		}
		if err := xml.Unmarshal(b.Bytes(), &junitSuites{}); err != nil {
			t.Error(err)
		}
	}
}

// TestWriteJUnit_SeveralResults has two profiles.
func TestWriteJUnit_SeveralResults(t *testing.T) {
	weights := Result{Group: "configuration", ID: "configuration.weights", Status: OK}
	r := &Report{Checks: []Result{weights, {Group: "source", ID: "source.tls", Status: OK}, weights, weights}}
	var b bytes.Buffer
	if err := r.WriteJUnit(&b, Error); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"configuration.weights", "source.tls", "configuration.weights (2)", "configuration.weights (3)"} {
		if n := strings.Count(b.String(), fmt.Sprintf("name=%q>", name)); n != 1 {
			t.Errorf("%d cases %s, want 1 in\n%s", n, name, b.String())
		}
	}
}

// The part of SARIF 2.1.0 that a report has.
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

// TestWriteSARIF expects what the standard requires: version, runs, tool.driver.name, message, and each ruleId among the rules.
func TestWriteSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteSARIF(&b, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	where := []sarifLocation{{
		sarifPhysicalLocation{sarifArtifact{"cluster/configmap/plimsoll-system/plimsoll"}, sarifRegion{1}},
		[]sarifLogicalLocation{{"ConfigMap plimsoll-system/plimsoll"}},
	}}
	want := []sarifResult{
		{"source.tls", "pass", "none", sarifMessage{"the certificate is <valid>"}, where},
		{"source.answers", "fail", "error", sarifMessage{"connection refused\nStart it.\nkubectl get pods"}, where},
		{"nodes.measured", "fail", "warning", sarifMessage{"nodes without load: 1 of 2"}, where},
		{"nodes.nearest", "notApplicable", "none", sarifMessage{"does not apply"}, where},
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("version %q with %d runs, want 2.1.0 with one", log.Version, len(log.Runs))
	}
	if diff := cmp.Diff(want, log.Runs[0].Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	driver := log.Runs[0].Tool.Driver
	if driver.Name == "" || driver.Version != "v1.2.3" {
		t.Errorf("driver %q of version %q, want a name and v1.2.3", driver.Name, driver.Version)
	}
	for _, result := range log.Runs[0].Results {
		if !slices.ContainsFunc(driver.Rules, func(r sarifRule) bool { return r.ID == result.RuleID }) {
			t.Errorf("%s is not among the rules", result.RuleID)
		}
	}
	b.Reset()
	if err := (&Report{}).WriteSARIF(&b, ""); err != nil || !strings.Contains(b.String(), `"results": []`) {
		t.Errorf("a report without checks: %v\n%s", err, b.String())
	}
}

// Code scanning takes a path relative to the repository, or a file URL, without spaces.
func TestReport_Artifact(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"deploy/scheduler.yaml", "deploy/scheduler.yaml"},
		{"my profiles.yaml", "my%20profiles.yaml"},
		{"a:b.yaml", "./a:b.yaml"},
		{"/etc/a.yaml", "file:///etc/a.yaml"},
		{"cluster/configmap/ns/name", "cluster/configmap/ns/name"},
		{"", "cluster/scheduler"},
	} {
		if got := (&Report{path: tt.path}).artifact(); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.path, got, tt.want)
		}
	}
}
