package prometheus

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
)

// ContainerUsage is what a container used of a resource in the promql.PodWindow before At, in milliCPU or bytes.
type ContainerUsage struct {
	Namespace, Pod, Container string
	Resource                  load.Resource
	At                        time.Time
	Value                     float64
}

// ContainerHistory selects usages of containers.
type ContainerHistory struct {
	// Address is the server's http(s) URL.
	Address string
	HTTP    httpclient.Config
	// Namespaces are those to read; none reads all.
	Namespaces []string
	// There is a usage each promql.PodWindow, from Start on until End.
	Start, End time.Time
}

// Bounds of one response, an hour of containers. A value has some 25 bytes: 100,000 containers have 40 MB.
const (
	containerChunk    = time.Hour
	maxContainerBytes = 256 << 20
	maxContainers     = 500_000
)

// Read passes each usage to visit, by two queries for each hour. progress is called with the share that is read, in [0, 1].
// After an error, passed usages must not be used.
func (h *ContainerHistory) Read(ctx context.Context, progress func(done float64), visit func(*ContainerUsage)) error {
	client, err := response.NewClient(h.Address, response.RangeQuery, h.HTTP)
	if err != nil {
		return err
	}
	defer client.Close()
	for from := h.Start; from.Before(h.End); from = from.Add(containerChunk) {
		for r := range load.ResourceCount {
			if err := h.readChunk(ctx, client, r, from, visit); err != nil {
				return fmt.Errorf("usage of %s by containers: %w", r, err)
			}
		}
		progress(min(float64(from.Add(containerChunk).Sub(h.Start))/float64(h.End.Sub(h.Start)), 1))
	}
	return nil
}

func (h *ContainerHistory) readChunk(
	ctx context.Context, client *response.Client, r load.Resource, from time.Time, visit func(*ContainerUsage),
) error {
	to := from.Add(containerChunk)
	if to.After(h.End) {
		to = h.End
	}
	parameters := url.Values{
		"query": {promql.ContainerUsage(r, h.Namespaces)}, "step": {strconv.Itoa(int(promql.PodWindow.Seconds()))},
		"start": {strconv.FormatInt(from.Add(promql.PodWindow).Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
	}
	elements := response.Matrix(response.ClearMap, func(s *response.Series[map[string]string]) {
		usage := ContainerUsage{Namespace: s.Metric["namespace"], Pod: s.Metric["pod"], Container: s.Metric["container"], Resource: r}
		for _, p := range s.Values {
			if p.At.Before(from) || p.At.After(to) {
				continue // was not asked for
			}
			if usage.At, usage.Value = p.At, p.Value*unitOf(r); load.RejectionOf(usage.Value) == load.Accepted {
				visit(&usage)
			}
		}
	})
	_, err := client.Send(ctx, parameters, response.Bounds{Bytes: maxContainerBytes, Series: maxContainers}, elements)
	return err
}
