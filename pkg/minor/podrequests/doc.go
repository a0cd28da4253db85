// Package podrequests sums up a pod's requests.
package podrequests
