// Package skew compares the Kubernetes versions of a scheduler, an API server and kubectl-plimsoll. A scheduler may be one minor
// version older than the API server, and must not be newer: https://kubernetes.io/releases/version-skew-policy.
package skew

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/version"
)

// Skew is the result of a comparison. The zero value means that Kubernetes supports the two versions together.
type Skew struct {
	// Behind is how many minor versions the scheduler is older than the API server; negative if it is newer.
	Behind int
	// Problem says why Kubernetes does not support the two together, and Advice what to do. Both are empty if it does.
	Problem, Advice string
}

// Compare compares two versions. Suffixes, as in v1.36.2-eks-1234, have no effect; the patch may be missing.
// It fails if a version is invalid, if the scheduler was built without one, or if the major versions differ.
func Compare(scheduler, apiServer string) (Skew, error) {
	s, err := version.ParseGeneric(scheduler)
	if err != nil {
		return Skew{}, fmt.Errorf("the scheduler's version: %w", err)
	}
	a, err := version.ParseGeneric(apiServer)
	if err != nil {
		return Skew{}, fmt.Errorf("the API server's version: %w", err)
	}
	if s.Major() != a.Major() {
		return Skew{}, fmt.Errorf("compare the scheduler (%s) with the API server (%s): the major versions differ", scheduler, apiServer)
	}
	behind := int(a.Minor()) - int(s.Minor())
	switch {
	case behind < 0:
		return Skew{
			Behind: behind,
			// For example, the scheduler waits for objects of a kind that the API server does not serve.
			Problem: "the scheduler is newer than the API server, which Kubernetes does not support: it may place no pod",
			Advice: fmt.Sprintf("Run the image of Plimsoll for Kubernetes %d.%d, or upgrade the cluster to %d.%d first.", a.Major(),
				a.Minor(), s.Major(), s.Minor()),
		}, nil
	case behind > 1:
		return Skew{
			Behind:  behind,
			Problem: fmt.Sprintf("the scheduler is %d minor versions older than the API server, and Kubernetes supports one", behind),
			Advice: fmt.Sprintf("Run the image of Plimsoll for Kubernetes %d.%d, or for %d.%d.", a.Major(), a.Minor(), a.Major(),
				a.Minor()-1),
		}, nil
	}
	return Skew{Behind: behind}, nil
}

// Minor returns the minor version, such as 1.37 of v1.37.1. It is empty for an invalid or missing version.
func Minor(gitVersion string) string {
	v, err := version.ParseGeneric(gitVersion)
	if err != nil || v.Major() == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

// minorTag matches the end of the name of Plimsoll's image: a tag with a minor version, and maybe a digest.
var minorTag = regexp.MustCompile(`(:[^:/@]*-k8s)(\d+\.\d+)([-._][^:/@]*)?(@[^/@]*)?$`)

// MinorOfImage returns the Kubernetes minor version in an image's tag, such as 1.37 of 0.2.0-k8s1.37; empty if it has none.
func MinorOfImage(image string) string {
	if match := minorTag.FindStringSubmatch(image); match != nil {
		return match[2]
	}
	return ""
}

// stockImage matches the image of a stock scheduler, whose tag is its Kubernetes version.
var stockImage = regexp.MustCompile(`(^|/)kube-scheduler(-[a-z0-9]+)?:v\d+\.\d+\.\d+([-._][^:/@]*)?(@[^/@]*)?$`)

// IsStockImage reports whether the image is that of a stock scheduler, by its name and tag.
func IsStockImage(image string) bool { return stockImage.MatchString(image) }

// OtherCommand returns a warning if kubectl-plimsoll and the scheduler have stock plugins of different minor versions. It is empty
// if the versions are equal or one is unknown.
func OtherCommand(command, scheduler string) string {
	if command == "" || scheduler == "" || command == scheduler {
		return ""
	}
	return fmt.Sprintf("this kubectl-plimsoll is of Kubernetes %s, the scheduler of %s: stock plugins and weights may differ",
		command, scheduler)
}
