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

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// Client sends requests to the API of a service.
type Client struct {
	*httpclient.Client
	// hint returns the setting to check for a status other than 200, or "".
	hint func(status int) string
}

// Request is a request to a path of the API.
type Request struct {
	Method, Path string
	Parameters   url.Values
	// Body is JSON, or nil.
	Body []byte
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
