package cluster

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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
		own := rest.CopyConfig(c.KubeConfig)
		// The certificate is self-signed, and the connection does not leave the pod.
		own.Host, own.TLSClientConfig = "https://localhost:"+metricsPort(w), rest.TLSClientConfig{Insecure: true}
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			return nil, "", err
		}
		metrics, err = readMetrics(ctx, client.CoreV1().RESTClient().Get().AbsPath("/metrics"))
		return metrics, podName(), err
	}
	pods := slices.Clone(w.Pods)
	if i := slices.Index(pods, leader); i > 0 {
		pods[0], pods[i] = pods[i], pods[0]
	}
	for _, pod := range pods {
		// Through the API server, which forwards no credentials of the user.
		request := c.Client.CoreV1().RESTClient().Get().Namespace(w.Namespace).Resource("pods").
			Name("https:" + pod + ":" + metricsPort(w)).SubResource("proxy").Suffix("metrics")
		if metrics, err = readMetrics(ctx, request); err == nil {
			return metrics, pod, nil
		}
	}
	return nil, "", err
}

func metricsPort(w *Workload) string {
	port, _ := w.Flags().GetInt("secure-port") // every scheduler has the flag
	return strconv.Itoa(port)
}

func readMetrics(ctx context.Context, request *rest.Request) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	return ParseMetrics(source.BoundBody(body, maxMetricsBytes))
}

// ParseMetrics returns the samples of a text in Prometheus' format.
func ParseMetrics(text io.Reader) (model.Vector, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, err
	}
	return expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Now()}, slices.Collect(maps.Values(families))...)
}
