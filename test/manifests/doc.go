// Package manifests renders the chart and reads what came of it, for the tests of the manifests.
package manifests
