// Package minor hides the differences between Kubernetes' minor versions for plugins. The packages below do so for pod usage and
// simulation. A build for an older minor version has a tag such as kubernetes_1_35; a build for the newest has none.
package minor
