// Package config holds the internal types of the plugins' arguments: plain values, defaults applied, ready to be
// validated and used. The versioned types that operators write are in the v1 package beside it.
//
// +k8s:deepcopy-gen=package
// +groupName=kubescheduler.config.k8s.io
package config
