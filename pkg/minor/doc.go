// Package minor hides the differences between Kubernetes' minor versions for plugins. The packages below do so for pod usage and
// simulation. A build for another minor version than the default has a tag such as kubernetes_1_35.
package minor
