//go:build kubernetes_1_38

package cluster

import (
	"context"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Ask runs an instant query at a moment. From Kubernetes 1.38 on, client_golang also returns infos.
func Ask(ctx context.Context, prometheus promv1.API, promQL string, at time.Time) (model.Value, promv1.Warnings, error) {
	value, warnings, _, err := prometheus.Query(ctx, promQL, at)
	return value, warnings, err
}
