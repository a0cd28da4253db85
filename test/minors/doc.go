// Package minors tests how a minor version of Kubernetes is chosen in the Makefile, and how hack/kubernetes.sh moves one.
package minors
