package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const maxMetricsBytes = 16 << 20

// Metrics reads the metrics of one of the scheduler's pods, and returns its name. With inPod, it reads the port of the command's
// own pod, and else the API server's proxy. It prefers the leader, because only the leader places pods. Without pods, it returns
// neither metrics nor an error.
func (c *Connection) Metrics(
	ctx context.Context, w *Workload, inPod bool, leader string,
) (metrics model.Vector, pod string, err error) {
	if inPod {
		metrics, err = readOwnMetrics(ctx, w)
		return metrics, podName(), err
	}
	pods := slices.Clone(w.Pods)
	slices.SortStableFunc(pods, func(a, b string) int { return rankOf(a, leader) - rankOf(b, leader) })
	for _, pod := range pods {
		if metrics, err = c.readThroughProxy(ctx, w, pod); err == nil {
			return metrics, pod, nil
		}
	}
	return nil, "", err
}

func rankOf(pod, leader string) int {
	if pod == leader {
		return 0
	}
	return 1
}

func metricsPort(w *Workload) string {
	port, _ := w.Flags().GetInt("secure-port") // every scheduler has the flag
	return strconv.Itoa(port)
}

// readOwnMetrics reads the metrics of the scheduler in the same pod, with the pod's own token.
func readOwnMetrics(ctx context.Context, w *Workload) (model.Vector, error) {
	const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost:"+metricsPort(w)+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	// The certificate is self-signed, and the connection does not leave the pod.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /metrics: %s", resp.Status)
	}
	return ParseMetrics(source.BoundBody(resp.Body, maxMetricsBytes))
}

// readThroughProxy reads the metrics of a pod through the API server, which forwards no credentials of the user.
func (c *Connection) readThroughProxy(ctx context.Context, w *Workload, pod string) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := c.Client.CoreV1().RESTClient().Get().Namespace(w.Namespace).Resource("pods").
		Name("https:" + pod + ":" + metricsPort(w)).SubResource("proxy").Suffix("metrics").Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	return ParseMetrics(source.BoundBody(body, maxMetricsBytes))
}

// ParseMetrics returns the samples of a text in Prometheus' format.
func ParseMetrics(text io.Reader) (model.Vector, error) {
	decoder := expfmt.SampleDecoder{
		Dec: expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{Timestamp: model.Now()},
	}
	var all model.Vector
	for {
		var family model.Vector
		switch err := decoder.Decode(&family); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, family...)
	}
}
