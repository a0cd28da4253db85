// Package manifests renders the chart and reads the result, for the tests of the manifests.
package manifests
