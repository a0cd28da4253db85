// Package upstream runs Kubernetes' own tests of a stock plugin on the plugin here that gives the same answers.
package upstream
