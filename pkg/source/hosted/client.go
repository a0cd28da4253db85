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

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Client sends requests to the API of a service.
type Client struct {
	*httpclient.Client
	base *url.URL
	// hint returns the setting to check for a status other than 200, or "".
	hint func(status int) string
}

// NewClient returns a client of the API at the address. It fails if a CA file cannot be read.
func NewClient(cfg httpclient.Config, address string, hint func(status int) string) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse the address: %w", err)
	}
	client, err := httpclient.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{Client: client, base: base, hint: hint}, nil
}

// Endpoint returns the URL of a path of the API for errors, or the address without a path.
func (c *Client) Endpoint(path ...string) string {
	return httpclient.WithoutSecrets(c.base.JoinPath(path...))
}

// Request is one to a path of the API.
type Request struct {
	Method, Path string
	Parameters   url.Values
	// Body is JSON, or nil.
	Body []byte
	// Nodes is the number of nodes in the response, and MaxBytes its bound.
	Nodes    int
	MaxBytes int64
	// Hint, unless nil, replaces the client's.
	Hint func(status int) string
}

// Do sends the request and decodes the response. The error names the URL and the setting to check.
func (c *Client) Do(ctx context.Context, r Request, decode func(*jsonstream.Decoder) error) error {
	u := c.base.JoinPath(r.Path)
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
	resp, err := c.Client.Do(req, r.MaxBytes)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the response has been read by then
	if resp.StatusCode != http.StatusOK {
		refusal := c.NewStatusError(resp)
		hint := c.hint
		if r.Hint != nil {
			hint = r.Hint
		}
		if hint := hint(refusal.Code); hint != "" {
			refusal.Hint = hint
		}
		return fmt.Errorf("%s %s: %w", r.Method, c.Endpoint(r.Path), refusal)
	}
	if err := c.decode(ctx, resp.Body, r.Nodes, decode); err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, c.Endpoint(r.Path), err)
	}
	return nil
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
			err = ctx.Err() // the connection may have been closed for this
		}
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the response is not complete JSON: %w: check that address is the API's, and not a login page's", err)
	}
	err = c.Explain(err)
	if source.IsTooLarge(err) {
		err = fmt.Errorf("%w, the bound for %d nodes: set clusterName or hostNameSuffix to read this cluster's hosts alone", err, nodes)
	}
	return err
}
