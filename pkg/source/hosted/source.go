// Package hosted is the common part of the sources for hosted monitoring services. It sends requests within rate limits, turns
// points in time into load, and matches hosts to nodes.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Source is a source without its queries. It is not safe for concurrent use.
type Source struct {
	Client *Client
	Nodes  corelisters.NodeLister
	Clock  clock.PassiveClock
	// Service is the source's name.
	Service string
	// Timeout bounds a whole Fetch.
	Timeout time.Duration
	// Suffix follows the names of nodes in names of hosts.
	Suffix string
	Limit  RateLimit
	Names  Names

	problems  ProblemLog
	unmatched source.UnmatchedLog
}

var _ io.Closer = &Source{}

// Name implements source.Source.
func (s *Source) Name() string { return s.Service }

// Close ends the idle connections. The Source may be used again afterwards.
func (s *Source) Close() error {
	s.Client.CloseIdleConnections()
	return nil
}

// FetchBy fetches load with measure, which returns the measured load and the problems. It fails without load or before a rate limit
// is reset.
func (s *Source) FetchBy(
	ctx context.Context, request source.Request, measure func(context.Context, []*corev1.Node) (*Table, []error),
) (source.Batch, error) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := s.Limited(); err != nil {
		return source.Batch{}, fmt.Errorf("%s: %w", s.Client.Endpoint(), err)
	}
	nodes, err := s.measurable(request)
	if err != nil {
		return source.Batch{}, err
	}
	table, problems := measure(ctx, nodes)
	problem := Summary(problems)
	batch := source.Batch{Samples: table.Samples(request.Windows)}
	if len(batch.Samples) == 0 && problem != nil {
		return source.Batch{}, problem
	}
	s.problems.Log(logger, s.Clock.Now(), problem)
	unmatched := table.Unmatched()
	s.unmatched.Log(logger, unmatched, "Hosts of "+s.Service+" that are not a node", "url", s.Client.Endpoint())
	batch.UnmatchedCount = len(unmatched)
	return batch, nil
}

// Limited returns an error while a rate limit allows no request.
func (s *Source) Limited() error { return s.Limit.Check(s.Clock.Now()) }

func (s *Source) measurable(request source.Request) ([]*corev1.Node, error) {
	if len(request.Windows) == 0 || slices.Min(request.Windows) <= 0 {
		return nil, fmt.Errorf("measure over windows %v: need at least one, and positive windows", request.Windows)
	}
	nodes, err := s.Nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes) == 0 {
		return nil, errors.New("match series to nodes: no Node is known")
	}
	return nodes, nil
}
