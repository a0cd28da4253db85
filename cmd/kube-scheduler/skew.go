package main

import (
	"context"
	"sync"
	"time"

	apimachineryversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// skewRetry is how long to wait before asking an API server again that did not respond.
const skewRetry = 10 * time.Second

// skewCheck warns once, when the first plugin is made, if Kubernetes does not support this scheduler with the API server.
type skewCheck struct{ once sync.Once }

// start returns at once: the API server may be away.
func (s *skewCheck) start(ctx context.Context, handle minor.Handle) {
	s.once.Do(func() {
		go warnOfSkew(ctx, componentversion.Get().GitVersion, handle.ClientSet().Discovery(), skewRetry)
	})
}

// warnOfSkew asks the API server for its version until it responds, and logs a warning if the scheduler's version is not supported
// with it.
func warnOfSkew(ctx context.Context, own string, server discovery.ServerVersionInterface, retry time.Duration) {
	logger := klog.FromContext(ctx)
	_ = wait.PollUntilContextCancel(ctx, retry, true, func(context.Context) (bool, error) {
		info, err := server.ServerVersion()
		if err != nil {
			logger.V(4).Info("Cannot read the version of the API server to compare it with the scheduler's", "err", err)
			return false, nil
		}
		if warning := skewWarning(own, info.GitVersion); warning != "" {
			logger.Info(warning, "scheduler", own, "apiServer", info.GitVersion)
		}
		return true, nil
	})
}

// skewWarning returns what to tell an operator, or nothing. A kube-scheduler must not be newer than the API server, and may be one
// minor version older; see https://kubernetes.io/releases/version-skew-policy.
func skewWarning(scheduler, apiServer string) string {
	own, err := apimachineryversion.ParseGeneric(scheduler)
	if err != nil || own.Major() == 0 {
		return "" // built without a version
	}
	other, err := apimachineryversion.ParseGeneric(apiServer)
	if err != nil {
		return ""
	}
	switch {
	case own.Major() != other.Major():
		return ""
	case own.Minor() > other.Minor():
		return "This scheduler is newer than the API server, which Kubernetes does not support: run the image for the API server's minor version"
	case own.Minor()+1 < other.Minor():
		return "This scheduler is more than one minor version older than the API server, which Kubernetes does not support: " +
			"run the image for the API server's minor version, or for the one before it"
	}
	return ""
}
