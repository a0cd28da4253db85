// Package cluster runs a real control plane for tests and for the playground: etcd, kube-apiserver, and KWOK instead of kubelets.
// It also runs Prometheus, optionally metrics-server, and the kube-scheduler of this repository. All parts listen on free ports of
// the loopback interface and keep their files in one temporary folder. They end with the context they were started with, or with
// the process that started them.
package cluster
