// Package api holds the RebalancerConfiguration. It reads no file.
package api
