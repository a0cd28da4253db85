// Package minors tests how a minor version of Kubernetes is chosen in the Makefile.
package minors
