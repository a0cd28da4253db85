// Package v1 holds the plugins' arguments as operators write them in a KubeSchedulerConfiguration: optional fields,
// defaults, and the conversion to the internal types.
//
// Defaults never replace a number or a duration that is given, not even zero: validation refuses a value out of range. An empty
// string, unless said otherwise, counts as not given.
//
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/plimsoll-scheduler/plimsoll/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io
package v1
