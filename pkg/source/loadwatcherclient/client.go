// Package loadwatcherclient reads node load from a load-watcher service.
package loadwatcherclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/wire"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/internal/httpclient"
)

// errorBytes is how much of an answer that is an error is read.
const errorBytes = 4 << 10

// Config says where the service is and how it is reached.
type Config struct {
	// Address is the http(s) URL below which the service answers, such as http://load-watcher:2020, a path prefix included.
	Address string
	// BearerToken is sent with the request; BearerTokenFile names a file that holds one and is read for each request. At
	// most one is set.
	BearerToken     string
	BearerTokenFile string
	// CAFile names a PEM bundle that replaces the system's roots; ExtraCAFiles name bundles that are trusted beside them. At
	// most one of the two is set. They are read anew when they change.
	CAFile             string
	ExtraCAFiles       []string
	InsecureSkipVerify bool
	// Timeout bounds one Fetch; 0 means 10 s.
	Timeout time.Duration
}

// Source reads a load-watcher service. It is not safe for concurrent use.
type Source struct {
	client *httpclient.Client
	nodes  corelisters.NodeLister
	// request is the URL that is read; shown is what errors call it, without credentials.
	request, shown string
	unmatched      source.Unmatched
}

var (
	_ source.Source = &Source{}
	_ io.Closer     = &Source{}
)

// New returns a source that reads the service and attributes what it says to the lister's nodes. It does not connect yet.
// It fails if the address is not an http(s) URL or holds more than host, port and path, if both tokens are set, if the
// timeout is negative, or if the CA file cannot be read.
func New(cfg Config, nodes corelisters.NodeLister) (*Source, error) {
	address, err := httpclient.ParseAddress(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("load-watcher: %w", err)
	}
	client, err := httpclient.New(httpclient.Config{
		BearerToken:        cfg.BearerToken,
		BearerTokenFile:    cfg.BearerTokenFile,
		CAFile:             cfg.CAFile,
		ExtraCAFiles:       cfg.ExtraCAFiles,
		InsecureSkipVerify: cfg.InsecureSkipVerify,
		Timeout:            cfg.Timeout,
	}, wire.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("load-watcher: %w", err)
	}
	request := address.JoinPath(wire.Path)
	return &Source{client: client, nodes: nodes, request: request.String(), shown: httpclient.WithoutSecrets(request)}, nil
}

// Name implements source.Source.
func (s *Source) Name() string { return "load-watcher" }

// Close closes idle connections. The source can still be used.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch reads the service once and returns one sample per node, whatever the windows asked for: the service has measured
// one window, and each sample's Window says which. A host that is not the name, the host name or an address of a node is
// unmatched, and so is one that means a node which another host already stands for; a host that is exactly a node's name
// goes first, then the lower in alphabetical order.
//
// It fails, naming the URL and the setting to look at, if there is no valid answer in time or none about a known node.
func (s *Source) Fetch(ctx context.Context, _ source.Request) (source.Batch, error) {
	measured, err := s.read(ctx)
	if err != nil {
		return source.Batch{}, err
	}
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return source.Batch{}, fmt.Errorf("list nodes: %w", err)
	}
	batch, unmatched := attribute(measured, nodes)
	s.unmatched.Report(klog.FromContext(ctx), unmatched, "Hosts of the load-watcher service that are not a node", "url", s.shown)
	if len(batch.Samples) == 0 {
		return source.Batch{}, fmt.Errorf("GET %s: none of its %d hosts is one of the %d nodes of this cluster: %s",
			s.shown, len(measured), len(nodes), strings.Join(batch.Unmatched, ", "))
	}
	return batch, nil
}

// read returns what the service says of hosts that it has a mean of, sorted by host; at least one.
func (s *Source) read(ctx context.Context) ([]load.Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.request, http.NoBody)
	if err != nil {
		return nil, s.client.Explain(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, s.client.Explain(err)
	}
	defer func() { _ = resp.Body.Close() }() // all that is wanted has been read by then
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %w", s.shown, refusal(resp))
	}
	document, err := wire.Decode(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", s.shown, s.client.Explain(err))
	}
	samples, err := document.Samples()
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", s.shown, err)
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("GET %s: the answer holds the CPU or memory of no host", s.shown)
	}
	return samples, nil
}

// refusal explains the statuses that load-watcher itself uses beside those that any server does.
func refusal(resp *http.Response) error {
	// What could be read is all there is to show; the status says what matters.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	err := httpclient.NewStatusError(resp, body)
	switch {
	case resp.StatusCode == http.StatusInternalServerError && len(body) == 0:
		return fmt.Errorf("%w (the service has nothing cached yet: it has just started, or cannot read its own metrics provider)", err)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w (no load-watcher answers there: check the address and its path prefix)", err)
	}
	return err
}

// attribute gives each sample to the node that its host means, and returns the hosts that are left, sorted.
func attribute(measured []load.Sample, nodes []*corev1.Node) (source.Batch, []string) {
	index := source.NewNodeIndex(nodes)
	// A host that is exactly a node's name stands for it, even if another one, earlier in the alphabet, is its address.
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
	batch := source.Batch{Samples: make([]load.Sample, 0, len(hostOf))}
	var unmatched []string
	for i, sample := range measured {
		switch node := matched[i]; {
		case node == nil:
			unmatched = append(unmatched, sample.Node)
		case hostOf[node.Name] != sample.Node:
			unmatched = append(unmatched, fmt.Sprintf("%s (node %s, as is %s)", sample.Node, node.Name, hostOf[node.Name]))
		default:
			sample.Node = node.Name
			batch.Samples = append(batch.Samples, sample)
		}
	}
	batch.Unmatched, batch.UnmatchedCount = source.Few(unmatched), len(unmatched)
	return batch, unmatched
}
