// Package hosted is the common part of the sources for hosted monitoring services. It sends requests within rate limits, turns
// points into load, and matches hosts to nodes.
package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// Config says where a service is and what to read. It must be valid and complete: nothing is checked or defaulted here.
type Config struct {
	// Address is the http(s) URL that the API's paths are appended to, such as https://api.us1.signalfx.com.
	Address string
	// Config says how to reach the server, with the credentials of the service. Its Timeout bounds a whole Fetch.
	httpclient.Config
	ClusterName string
	// HostNameSuffix follows the names of nodes in names of hosts. Only hosts with the suffix are read.
	HostNameSuffix string
	Dialect        string
	// CPUQuery and MemoryQuery, unless empty, replace the service's usual queries. They are for utilization in percent.
	CPUQuery, MemoryQuery string
}

// Source is a source except for its queries. It is not safe for concurrent use.
type Source struct {
	Client  *Client
	Nodes   corelisters.NodeLister
	Clock   clock.PassiveClock
	Service string
	Timeout time.Duration
	Suffix  string
	Limit   RateLimit

	problems  source.LogLimit
	unmatched source.UnmatchedLog
}

var _ io.Closer = &Source{}

// New returns a source except for its queries. hint returns the setting to check for a status other than 200, or "".
// New fails if a CA file cannot be read.
func New(
	service string, cfg Config, nodes corelisters.NodeLister, c clock.PassiveClock, hint func(status int) string,
) (Source, error) {
	client, err := httpclient.New(cfg.Address, cfg.Config)
	if err != nil {
		return Source{}, fmt.Errorf("client of %s: %w", service, err)
	}
	return Source{
		Service: service, Client: &Client{Client: client, hint: hint}, Nodes: nodes, Clock: c, Timeout: cfg.Timeout,
		Suffix: cfg.HostNameSuffix,
	}, nil
}

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
	problem := source.Summary(problems)
	batch := source.Batch{Samples: table.Samples(request.Windows)}
	if len(table.rejected) > 0 {
		batch.Rejected = table.rejected
	}
	if len(batch.Samples) == 0 && problem != nil {
		return source.Batch{}, problem
	}
	s.logProblem(logger, problem)
	unmatched := table.Unmatched()
	s.unmatched.Log(logger, unmatched, "Hosts or series of "+s.Service+" that match no node", "url", s.Client.Endpoint())
	batch.UnmatchedCount = len(unmatched)
	return batch, nil
}

func (s *Source) logProblem(logger klog.Logger, problem error) {
	var texts []string
	if problem != nil {
		texts = append(texts, problem.Error())
	}
	if logger, ok := s.problems.AllowChange(logger, s.Clock.Now(), texts); ok && problem == nil {
		logger.Info("Load can be read completely again")
	} else if ok {
		logger.Info("Part of the load cannot be read; nodes keep their last measurement until it expires", "problem", texts[0])
	}
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
		return nil, source.ErrNoNodes
	}
	return nodes, nil
}

// Client sends requests to the API of a service.
type Client struct {
	*httpclient.Client
	hint func(status int) string
}

// Request is a request to a path of the API.
type Request struct {
	Method, Path string
	Parameters   url.Values
	Body         []byte
	// Nodes is the number of nodes in the response, and MaxBytes the largest size of the response.
	Nodes    int
	MaxBytes int64
}

// Do sends the request and decodes the response. The error names the URL and the setting to check.
func (c *Client) Do(ctx context.Context, r Request, decode func(*jsonstream.Decoder) error) error {
	u := c.URL(r.Path)
	u.RawQuery = r.Parameters.Encode()
	var body io.Reader = http.NoBody
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), body)
	if err != nil {
		return c.Explain(err)
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	return c.Exchange(req, r.MaxBytes, func(resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return c.decode(ctx, resp.Body, r.Nodes, decode)
		}
		refusal := c.NewStatusError(resp)
		refusal.Hint = c.hint(refusal.Code)
		return refusal
	})
}

func (c *Client) decode(ctx context.Context, body io.Reader, nodes int, decode func(*jsonstream.Decoder) error) error {
	dec := jsonstream.NewDecoder(body, source.MaxElements(nodes))
	err := decode(dec)
	if err == nil {
		err = dec.End()
	}
	if failed, ok := errors.AsType[*jsonstream.ReadError](err); ok {
		err = failed.Unwrap()
		if ctx.Err() != nil {
			err = ctx.Err() // which may have closed the connection
		} else if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the connection ended before the response was complete: %w", err)
		}
	} else if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the response is not complete JSON: %w: check that address is the API's, and not a login page's", err)
	}
	err = c.Explain(err)
	if source.IsTooLarge(err) {
		err = fmt.Errorf("%w, the bound for %d nodes: set clusterName or hostNameSuffix to read this cluster's hosts alone", err, nodes)
	}
	return err
}

const (
	// defaultWait is the wait after a refusal without a reset time: limits are per minute or longer.
	defaultWait = time.Minute
	// longestWait bounds the wait that a service can demand.
	longestWait = time.Hour
)

// RateLimit delays queries until a service resets its limit. The zero value delays none. It is not safe for concurrent use.
type RateLimit struct{ reset time.Time }

// Check returns an error before the limit is reset.
func (l *RateLimit) Check(now time.Time) error {
	if wait := l.reset.Sub(now); wait <= 0 || wait > longestWait { // a longer one means that the clock went back
		return nil
	}
	return fmt.Errorf("the service's rate limit is reached, no query is sent before %s: raise refreshInterval or share a "+
		"load-watcher service", l.reset.UTC().Format("15:04:05 UTC"))
}

// Observe returns err, with the time of the reset if the rate of queries was refused.
func (l *RateLimit) Observe(now time.Time, err error) error {
	refused, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok || refused.Code != http.StatusTooManyRequests {
		return err
	}
	wait := defaultWait
	for _, header := range []string{"X-RateLimit-Reset", "Retry-After"} { // Retry-After wins
		seconds, err := strconv.ParseFloat(refused.Header.Get(header), 64)
		if err == nil && seconds > 0 && seconds <= longestWait.Seconds() {
			wait = time.Duration(seconds * float64(time.Second))
		}
	}
	l.reset = now.Add(wait)
	return fmt.Errorf("%w: %w", err, l.Check(now))
}
