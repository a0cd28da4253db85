// Package upstream runs Kubernetes' own tests of stock plugins on the plugins here that give the same answers.
package upstream
