// Package rebalancer holds the RebalancerConfiguration. It reads no file.
package rebalancer
