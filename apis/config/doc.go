// Package config holds the plugins' names and the internal types of their arguments: plain values with defaults applied. What
// operators write are the versioned types of package v1, which document the fields and their units.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
