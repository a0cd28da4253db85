// Package loadwatcherclient reads node load from a load-watcher service.
package loadwatcherclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/wire"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
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
	client *httpclient.Client
	nodes  corelisters.NodeLister
	// request is the URL; endpoint is the URL in errors, without credentials.
	request, endpoint string
	unmatched         source.UnmatchedLog
}

var (
	_ source.Source = &Source{}
	_ io.Closer     = &Source{}
)

// New returns a source for the lister's nodes. It does not connect yet. It fails if a CA file cannot be read.
func New(cfg Config, nodes corelisters.NodeLister) (*Source, error) {
	address, err := url.Parse(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("load-watcher: parse the address: %w", err)
	}
	client, err := httpclient.New(cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("load-watcher: %w", err)
	}
	request := address.JoinPath(wire.Path)
	return &Source{client: client, nodes: nodes, request: request.String(), endpoint: httpclient.WithoutSecrets(request)}, nil
}

// Name implements source.Source.
func (s *Source) Name() string { return "load-watcher" }

// Close closes idle connections. The source can still be used.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch reads the service once and returns one sample per node. The service measures one window, which is each sample's Window.
//
// A host is unmatched without a node of that name, host name or address. Of several hosts of a node, the one with its name
// counts, else the first in alphabetical order. The others are unmatched.
//
// It fails without a valid response in time or without a known node. The error names the URL and the setting to check.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	measured, err := s.read(ctx, len(nodes))
	if err != nil {
		return source.Batch{}, err
	}
	samples, unmatched := s.attribute(measured, nodes)
	s.unmatched.Log(klog.FromContext(ctx), unmatched, "Hosts of the load-watcher service that are not a node", "url", s.endpoint)
	if len(samples) == 0 {
		return source.Batch{}, fmt.Errorf("GET %s: none of its %d hosts is one of the %d nodes of this cluster: %s",
			s.endpoint, len(measured), len(nodes), text.FirstN(unmatched))
	}
	return source.Batch{Samples: samples, UnmatchedCount: len(unmatched)}, nil
}

// read returns the samples of all hosts with a mean, sorted by host; at least one. The number of nodes bounds the document.
func (s *Source) read(ctx context.Context, nodes int) ([]load.Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.request, http.NoBody)
	if err != nil {
		return nil, s.client.Explain(err)
	}
	req.Header.Set("Accept", "application/json")
	maxBytes := min(source.MaxResponseBytes(nodes), wire.MaxBytes)
	resp, err := s.client.Do(req, maxBytes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %w", s.endpoint, s.refusal(resp))
	}
	document, err := wire.Decode(resp.Body, maxBytes)
	if err != nil {
		err = s.client.Explain(err)
		if source.IsTooLarge(err) || errors.Is(err, wire.ErrTooLarge) {
			err = fmt.Errorf("%w, the bound for %d nodes: let the service measure this cluster's nodes alone", err, nodes)
		}
		return nil, fmt.Errorf("GET %s: %w", s.endpoint, err)
	}
	samples, err := document.Samples()
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", s.endpoint, err)
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("GET %s: the response has no host's CPU or memory", s.endpoint)
	}
	return samples, nil
}

// refusal returns the error for a status other than 200, with load-watcher's usual reason.
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
	index := source.NewNodeIndex(nodes)
	// A host with the node's name wins over one with its address.
	matched := make([]*corev1.Node, len(measured))
	hostOf := make(map[string]string, len(measured))
	for i := range measured {
		host := measured[i].Node
		node, ok := index.Match(host)
		if !ok {
			continue
		}
		matched[i] = node
		if _, taken := hostOf[node.Name]; !taken || host == node.Name {
			hostOf[node.Name] = host
		}
	}
	samples = make([]load.Sample, 0, len(hostOf))
	for i, sample := range measured {
		node := matched[i]
		if node != nil && hostOf[node.Name] == sample.Node {
			sample.Node = node.Name
			samples = append(samples, sample)
			continue
		}
		if len(unmatched) == source.MaxUnmatched {
			continue
		}
		host := s.client.Excerpt(sample.Node)
		if node != nil {
			host = text.Excerpt(fmt.Sprintf("%s (node %s, as is %s)", host, node.Name, s.client.Excerpt(hostOf[node.Name])))
		}
		unmatched = append(unmatched, host)
	}
	return samples, unmatched
}
