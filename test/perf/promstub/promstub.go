// Package promstub answers the queries of a scheduler's load plugins like a Prometheus that scrapes a node-exporter on each
// node. It evaluates nothing: the responses are prepared, so that benchmarks measure the client and not the server.
package promstub

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Metric is the prefix of queries that stand for a cluster operator's own node metrics.
const Metric = "perf_metric"

// nowPlaceholder is replaced with the evaluation time in prepared responses. It has as many digits.
const nowPlaceholder = "0000000000.000"

// newestPlaceholder is replaced with the time of the newest samples.
const newestPlaceholder = "1111111111.111"

// Server is an http.Handler of the path /api/v1/query. Its zero value knows no nodes and returns empty vectors.
type Server struct {
	// Gzip compresses responses for clients that accept it, as Prometheus does.
	Gzip bool
	// Now is the time of the evaluation; nil is time.Now.
	Now func() time.Time
	// Age is that of the newest samples.
	Age time.Duration
	// Pods, unless nil, answers the queries about pods.
	Pods *Pods

	queries   atomic.Int64
	responses atomic.Pointer[responses]
}

type responses struct{ newest, cpu, cpuDeviation, memory, memoryDeviation, metric []byte }

// SetInstances makes the server answer for targets whose label "instance" has the given values. Utilizations are between
// 5 and 65 %, so that no usual limit is passed, and deviations between 0 and 10 points. Queries that begin with Metric
// yield values between 0 and 1, queries of any other kind nothing.
func (s *Server) SetInstances(instances []string) { s.SetUtilization(instances, 0.05, 0.65) }

// SetUtilization is SetInstances with utilizations between low and high, as fractions.
func (s *Server) SetUtilization(instances []string, low, high float64) {
	s.responses.Store(&responses{
		newest: newest(instances), cpu: vector(instances, 1, low, high), cpuDeviation: vector(instances, 2, 0, 0.1),
		memory: vector(instances, 3, low, high), memoryDeviation: vector(instances, 4, 0, 0.1), metric: vector(instances, 5, 0, 1),
	})
}

// Queries is the number of queries answered so far.
func (s *Server) Queries() int64 { return s.queries.Load() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/query" {
		http.NotFound(w, r)
		return
	}
	s.queries.Add(1)
	if s.Pods != nil && strings.Contains(r.FormValue("query"), ofPods) {
		s.Pods.ServeHTTP(w, r)
		return
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	evaluated := now()
	if seconds, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
		if past := time.UnixMilli(int64(1000 * seconds)); past.Before(evaluated) { // what was measured in the past changes no more
			evaluated = past
		}
	}
	at := func(t time.Time) []byte { return fmt.Appendf(nil, "%.3f", float64(t.UnixMilli())/1000) }
	body := bytes.ReplaceAll(s.response(r.FormValue("query")), []byte(newestPlaceholder), at(evaluated.Add(-s.Age)))
	body = bytes.ReplaceAll(body, []byte(nowPlaceholder), at(evaluated))
	w.Header().Set("Content-Type", "application/json")
	if !s.Gzip || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(body) // the client may have closed the connection
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_, _ = packed.Write(body)
	_ = packed.Close()
}

func (s *Server) response(query string) []byte {
	prepared := s.responses.Load()
	if prepared == nil {
		return vector(nil, 0, 0, 0)
	}
	deviation := strings.HasPrefix(query, "stddev_over_time") || strings.Contains(query, "(stddev_over_time")
	switch {
	case strings.Contains(query, "(timestamp("):
		return prepared.newest
	case strings.Contains(query, "node_cpu_seconds_total") && deviation:
		return prepared.cpuDeviation
	case strings.Contains(query, "node_cpu_seconds_total"):
		return prepared.cpu
	case strings.Contains(query, "node_memory_MemAvailable_bytes") && deviation:
		return prepared.memoryDeviation
	case strings.Contains(query, "node_memory_MemAvailable_bytes"):
		return prepared.memory
	case strings.HasPrefix(query, Metric):
		return prepared.metric
	}
	return vector(nil, 0, 0, 0)
}

// newest is a response with one series per instance. Its value is the time of the newest sample.
func newest(instances []string) []byte {
	return encode(instances, slices.Repeat([]string{newestPlaceholder}, len(instances)))
}

// vector is a response with one series per instance. The values spread evenly from low to high, in another order for each seed.
// They have as many digits as a Prometheus' values.
func vector(instances []string, seed int, low, high float64) []byte {
	values := make([]string, len(instances))
	for i := range values {
		_, share := math.Modf(float64(i+1) * math.Phi * float64(seed)) // a sequence of low discrepancy
		values[i] = fmt.Sprintf("%.17g", low+share*(high-low))
	}
	return encode(instances, values)
}

// encode returns a response with one series per instance.
func encode(instances, values []string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i, instance := range instances {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"metric":{"instance":%q},"value":[%s,"%s"]}`, instance, nowPlaceholder, values[i])
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}
