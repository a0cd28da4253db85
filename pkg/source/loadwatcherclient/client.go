// Package loadwatcherclient reads node load from a load-watcher service.
package loadwatcherclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
)

// Config locates the service. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL of the service, with its path prefix, such as http://load-watcher:2020.
	Address string
	// Config says how to reach the service. Its Timeout bounds one Fetch.
	httpclient.Config
}

// Source reads a load-watcher service. It is not safe for concurrent use.
type Source struct {
	client    *httpclient.Client
	nodes     corelisters.NodeLister
	unmatched source.UnmatchedLog
}

var (
	_ source.Source = &Source{}
	_ io.Closer     = &Source{}
)

// New returns a source for the lister's nodes. It does not connect yet. It fails if a CA file cannot be read.
func New(cfg Config, nodes corelisters.NodeLister) (*Source, error) {
	client, err := httpclient.New(cfg.Address, cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("load-watcher: %w", err)
	}
	return &Source{client: client, nodes: nodes}, nil
}

func (s *Source) Name() string { return "load-watcher" }

// Close closes idle connections. The source can still be used.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch reads the service once and returns one sample per node. The service measures one window, which is each sample's Window.
//
// A host is unmatched if no node has it as its name, host name or address. If several hosts match one node, the one that equals
// the node's name counts, else the first in alphabetical order. The others are unmatched.
//
// Fetch fails if no valid response comes in time, or if no host in it matches a node. The error names the URL and the setting to
// check.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	measured, rejected, err := s.read(ctx, len(nodes))
	if err != nil {
		return source.Batch{Rejected: rejected}, err
	}
	samples, unmatched := s.attribute(measured, nodes)
	s.unmatched.Log(
		klog.FromContext(ctx), unmatched,
		"Ignored hosts in the load-watcher service's response: they match no node, or another host of the node counts", "url",
		s.client.Endpoint(wire.Path),
	)
	if len(samples) == 0 {
		return source.Batch{Rejected: rejected}, fmt.Errorf("GET %s: none of its %d hosts is one of the %d nodes of this cluster: %s",
			s.client.Endpoint(wire.Path), len(measured), len(nodes), text.FirstN(unmatched))
	}
	return source.Batch{Samples: samples, UnmatchedCount: len(unmatched), Rejected: rejected}, nil
}

// read returns the samples of all hosts with a mean, sorted by host; at least one. The number of nodes bounds the document.
func (s *Source) read(ctx context.Context, nodes int) (samples []load.Sample, rejected source.Rejected, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.URL(wire.Path).String(), http.NoBody)
	if err != nil {
		return nil, nil, s.client.Explain(err)
	}
	req.Header.Set("Accept", "application/json")
	maxBytes := min(source.MaxResponseBytes(nodes), wire.MaxBytes)
	err = s.client.Exchange(req, maxBytes, func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return s.refusal(resp)
		}
		document, err := wire.Decode(resp.Body, maxBytes)
		if err != nil {
			err = s.client.Explain(err)
			if source.IsTooLarge(err) || errors.Is(err, wire.ErrTooLarge) {
				err = fmt.Errorf("%w, the bound for %d nodes: let the service measure this cluster's nodes alone", err, nodes)
			}
			return err
		}
		rejected = document.Rejected()
		if samples, err = document.Samples(); err == nil && len(samples) == 0 {
			err = errors.New("the response has no host's CPU or memory")
		}
		return err
	})
	return samples, rejected, err
}

func (s *Source) refusal(resp *http.Response) error {
	err := s.client.NewStatusError(resp)
	switch {
	case resp.StatusCode == http.StatusInternalServerError && len(err.Body) == 0:
		return fmt.Errorf("%w (the service has no load yet: it has just started, or cannot read its metrics provider)", err)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w (no load-watcher there: check the address and its path prefix)", err)
	}
	return err
}

// attribute returns the samples by node, and the unmatched hosts, sorted, up to source.MaxUnmatched.
func (s *Source) attribute(measured []load.Sample, nodes []*corev1.Node) (samples []load.Sample, unmatched []string) {
	index, chosen := source.NewNodeIndex(nodes), make(map[int]string, len(nodes)) // hosts by position of the node
	for i := range measured {
		host := measured[i].Node
		if position, ok := index.Match(host); ok {
			if _, taken := chosen[position]; !taken || host == nodes[position].Name {
				chosen[position] = host
			}
		}
	}
	samples = make([]load.Sample, 0, len(chosen))
	for _, sample := range measured {
		if position, ok := index.Match(sample.Node); ok && chosen[position] == sample.Node {
			sample.Node = nodes[position].Name
			samples = append(samples, sample)
		} else if len(unmatched) < source.MaxUnmatched {
			unmatched = append(unmatched, s.client.Excerpt(sample.Node))
		}
	}
	return samples, unmatched
}
