package skew

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
)

// Retry is how long to wait before asking an API server again that did not respond.
const Retry = 10 * time.Second

// Warn polls the API server for its version, and logs a warning if it is not supported. format is the format of the log.
func Warn(ctx context.Context, own string, server discovery.ServerVersionInterface, retry time.Duration, format string) {
	logger := klog.FromContext(ctx).V(4)
	_ = wait.PollUntilContextCancel(ctx, retry, true, func(context.Context) (bool, error) {
		info, err := server.ServerVersion()
		if err != nil {
			logger.Info("Cannot read the version of the API server to compare it with the scheduler's", "err", err)
			return false, nil
		}
		compared, err := Compare(own, info.GitVersion)
		if err != nil {
			logger.Info("Cannot compare the versions of the scheduler and the API server", "err", err)
		} else if compared.Problem != "" {
			program.Warn(format, compared.Problem+". "+compared.Advice, "scheduler", own, "apiServer", info.GitVersion)
		}
		return true, nil
	})
}
