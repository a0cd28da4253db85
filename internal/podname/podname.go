// Package podname describes the suffixes that Kubernetes' controllers append to names: hashes, times and random characters.
package podname

const (
	// Letters are the characters of hashes and of random suffixes: those of k8s.io/apimachinery/pkg/util/rand.
	Letters = "bcdfghjklmnpqrstvwxz2456789"
	// MinHash is the minimum length of a Deployment's hash in the names of its ReplicaSets.
	MinHash = 6
	// MaxHash is the maximum length.
	MaxHash = 10
	// TimeDigits is the length of a CronJob's time in the names of its Jobs: minutes since 1970.
	TimeDigits = 8
)
