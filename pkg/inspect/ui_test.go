package inspect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// slowPods is a Prometheus that answers queries about pods once it is released. It knows that ns/runs uses some CPU.
type slowPods struct {
	promstub.Server
	// asked gets a value for each query about pods that waits, and left one for each whose client has gone.
	asked, left, released chan struct{}
}

func (s *slowPods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.FormValue("query"), `pod!=""`) {
		select {
		case <-s.released:
		case <-r.Context().Done():
			return
		case s.asked <- struct{}{}:
			select {
			case <-s.released:
			case <-r.Context().Done():
				s.left <- struct{}{}
				return
			}
		}
	}
	s.Server.ServeHTTP(w, r)
}

// page is a page of keptObjects, and a browser that has its session.
type page struct {
	*ui.Server
	cluster    *objectServer
	prometheus *slowPods
	clock      *clocktesting.FakeClock
	client     *http.Client
}

func openPage(t *testing.T) *page {
	t.Helper()
	p := &page{prometheus: &slowPods{asked: make(chan struct{}), left: make(chan struct{}, 10), released: make(chan struct{})}}
	p.prometheus.SetUtilization([]string{"a:9100", "b:9100", "c:9100", "d:9100"}, 0.1, 0.7)
	p.prometheus.Pods = promstub.NewPods([]promstub.Pod{{Namespace: "ns", Name: "runs", Workload: "runs"}})
	prometheus := check.Serve(t, p.prometheus)
	p.cluster = newObjectServer(t, keptObjects()...)
	conn := check.Value(cluster.Connect(&rest.Config{Host: p.cluster.URL}, "ns", false))(t)
	from := cluster.ConfigurationOptions{File: write(t, fmt.Sprintf(keptConfiguration, prometheus.URL, 80))}
	session := check.Value(top.Open(t.Context(), conn, from, cluster.SourceOptions{}, top.Options{}))(t)
	listener := check.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	p.clock = clocktesting.NewFakeClock(time.Now())
	conn = conn.Holding(session.Held)
	p.Server = check.Value(ui.NewServer(t.Context(), listener, ui.Options{
		Source: session, Clock: p.clock,
		Check: func(context.Context, cluster.Lender) (*doctor.Report, error) { return &doctor.Report{}, nil },
		Questions: ui.Questions{Explain: func(ctx context.Context, namespace string, r explain.Request) (explain.Result, error) {
			r.Configuration, r.Found = from, func(*cluster.Configuration) {}
			return explain.Run(ctx, conn.In(namespace), r)
		}},
	}))(t)
	var served sync.WaitGroup
	served.Go(func() { _ = p.Serve(t.Context()) }) // requests would fail
	t.Cleanup(served.Wait)
	jar := check.Value(cookiejar.New(nil))(t)
	p.client = &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	address := check.Value(url.Parse(p.URL()))(t)
	p.get(t.Context(), t, http.MethodPost, "session", strings.TrimPrefix(address.Fragment, "token="))
	return p
}

// get returns the body of a response, or the error of the request.
func (p *page) get(ctx context.Context, t *testing.T, method, path, body string) string {
	t.Helper()
	req := check.Value(http.NewRequestWithContext(ctx, method, p.Address()+path, strings.NewReader(body)))(t)
	resp, err := p.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	content := check.Value(io.ReadAll(resp.Body))(t)
	return string(content)
}

// A refresh does not wait for the usage of a pod that is explained. A click that is canceled makes room for the next.
func TestUI_ExplainWaitsAlone(t *testing.T) {
	p := openPage(t)
	explained := func(ctx context.Context, pod string) <-chan string {
		answer := make(chan string, 1)
		go func() { answer <- p.get(ctx, t, http.MethodGet, "explain.json?namespace=ns&pod="+pod, "") }()
		return answer
	}
	browser, leave := context.WithCancel(t.Context())
	defer leave()
	const atATime = 2
	var canceled []<-chan string
	for range atATime {
		canceled = append(canceled, explained(browser, "runs"))
		check.Receive(t, "a query about pods", p.prometheus.asked)
	}
	p.cluster.add(waitingPod("late", "1").Obj())
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(p.get(t.Context(), t, http.MethodGet, "snapshot.json", ""), "ns/late"); {
		if time.Now().After(deadline) {
			t.Fatal("no refresh while the usage of pods is read")
		}
		p.clock.Step(top.ShowInterval)
		time.Sleep(50 * time.Millisecond)
	}
	leave()
	for _, answer := range canceled {
		check.Receive(t, "the end of a query", p.prometheus.left)
		check.Receive(t, "the end of a canceled question", answer)
	}
	placed := explained(t.Context(), "runs")
	check.Receive(t, "a query about pods", p.prometheus.asked)
	check.Contains(t, check.Receive(t, "a waiting pod", explained(t.Context(), "waits")), `"feasibleNodes":2`)
	close(p.prometheus.released)
	if got := check.Receive(t, "a placed pod", placed); !strings.Contains(got, `"placement":{"node":"a"`) || strings.Contains(got, "usageEstimated") ||
		strings.Contains(got, "Cannot read") {
		t.Errorf("a placed pod: %s", got)
	}
}
