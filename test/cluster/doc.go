// Package cluster runs a real control plane for tests and for the playground: etcd and kube-apiserver, KWOK in the place of
// kubelets, Prometheus that measures the nodes, metrics-server if asked for, and the kube-scheduler of this repository. All of
// it listens on free ports of the loopback interface, keeps its files in one temporary folder, and ends with the context it
// was started with, or with the process that started it.
package cluster
