package text

const (
	// PodNameLetters are the characters of hashes and of random suffixes: those of k8s.io/apimachinery/pkg/util/rand.
	PodNameLetters = "bcdfghjklmnpqrstvwxz2456789"
	// MinPodNameHash is the minimum length of a Deployment's hash in the names of its ReplicaSets.
	MinPodNameHash = 6
	// MaxPodNameHash is the maximum length.
	MaxPodNameHash = 10
	// JobTimeDigits is the length of a CronJob's time in the names of its Jobs: minutes since 1970.
	JobTimeDigits = 8
)
