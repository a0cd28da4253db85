// Package podrequests sums up what a pod requests.
package podrequests
