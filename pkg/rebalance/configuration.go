package rebalance

import (
	"context"
	"fmt"

	"github.com/plimsoll-scheduler/plimsoll/apis/rebalancer"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// ReadConfiguration reads a RebalancerConfiguration. Without a file it returns the defaults. Errors name the file.
func ReadConfiguration(ctx context.Context, file string) (*rebalancer.Configuration, error) {
	if file == "" {
		return rebalancer.Default(), nil
	}
	content, err := boundedfile.ReadConfiguration(ctx, file)
	if err != nil {
		return nil, err
	}
	c, err := rebalancer.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}
