// Package v1 holds the plugins' arguments of a KubeSchedulerConfiguration: optional fields, defaults, and conversion.
//
// Defaults never replace an explicit number or duration, not even zero: validation refuses a value out of range.
// An empty string is unset, unless documented otherwise.
//
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/plimsoll-scheduler/plimsoll/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io
package v1
