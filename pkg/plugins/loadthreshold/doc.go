// Package loadthreshold rules out nodes whose present load, pods just placed and the pod itself included, would pass a
// threshold.
package loadthreshold
