package prometheus

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func newTestPodSource(t *testing.T, url string) *PodSource {
	t.Helper()
	s := check.Value(NewPodSource(Config{Address: url, Config: httpclient.Config{BearerToken: "hunter2"}}, nil))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

// podElement is a series of a pod.
func podElement(namespace, pod, value string) element {
	return element{fmt.Sprintf(`"namespace":%q,"pod":%q`, namespace, pod), value}
}

func fetchPods(t *testing.T, s *PodSource) (usages []source.PodUsage, failed [load.ResourceCount]error) {
	t.Helper()
	failed = s.FetchPods(t.Context(), 2, func(u *source.PodUsage) { usages = append(usages, *u) })
	return usages, failed
}

func TestFetchPods(t *testing.T) {
	srv := newServer(t,
		rule{"(container_cpu_usage_seconds_total{namespace!=\"\",pod!=\"\",container=\"\",image=\"\"}))", vector(element{"", "2"})},
		rule{"rate(container_cpu", vector(podElement("shop", "web-1", "0.25"), podElement("shop", "web-2", "NaN"))},
		rule{"avg_over_time(container_memory", vector(podElement("shop", "web-1", "1048576"))},
	)
	s := newTestPodSource(t, srv.URL)
	usages, failed := fetchPods(t, s)
	if failed != [load.ResourceCount]error{} {
		t.Fatal(failed)
	}
	want := []source.PodUsage{
		{Namespace: "shop", Pod: "web-1", Resource: load.CPU, Usage: 250, Window: 5 * time.Minute},
		{Namespace: "shop", Pod: "web-1", Resource: load.Memory, Usage: 1 << 20},
	}
	check.Equal(t, "usages", want, usages, equateValues())
	if rejected := s.TakeRejected(); rejected.String() != "1 NotANumber" {
		t.Errorf("rejected %s, want 1 NotANumber", rejected)
	}
	// What was found is not looked for again, until it is gone.
	srv.setRules(srv.rules...)
	fetchPods(t, s)
	if asked := srv.asked(); len(asked) != 2 {
		t.Errorf("asked %q, want the two queries alone", asked)
	}
	srv.setRules()
	fetchPods(t, s)
	_, failed = fetchPods(t, s)
	check.Error(t, failed[load.CPU], "no series with the usage of pods", srv.URL, "scrape cAdvisor")
}

// TestFetchPods_FewSeriesDecideNothing has few series of the families that come first: somebody's pods expose them.
func TestFetchPods_FewSeriesDecideNothing(t *testing.T) {
	for _, tc := range []struct{ kubelet, cAdvisor, containers, want string }{
		{"100", "100", "100", "pod_cpu_usage_seconds_total"},
		{"50", "100", "100", "pod_cpu_usage_seconds_total"},
		{"49", "100", "100", `container="",image=""`},
		{"49", "49", "100", `container!=""`},
		{"0", "0", "1", `container!=""`},
	} {
		srv := newServer(t,
			rule{`(pod_cpu_usage_seconds_total{namespace!="",pod!=""}))`, vector(element{"", tc.kubelet})},
			rule{`pod!="",container="",image=""}))`, vector(element{"", tc.cAdvisor})},
			rule{`pod!="",container!="",container!="POD"}))`, vector(element{"", tc.containers})},
		)
		fetchPods(t, newTestPodSource(t, srv.URL))
		asked := srv.asked()
		if got := asked[len(asked)-2]; !strings.Contains(got, "rate(") || !strings.Contains(got, tc.want) {
			t.Errorf("of %s, %s and %s pods %s is read, want %s", tc.kubelet, tc.cAdvisor, tc.containers, got, tc.want)
		}
	}
}

// TestFetchPods_LooksForMoreNowAndThen has the kubelets' own series appear once others are read.
func TestFetchPods_LooksForMoreNowAndThen(t *testing.T) {
	values := vector(podElement("shop", "web-1", "0.25"))
	cAdvisor := []rule{{`pod!="",container="",image=""}))`, vector(element{"", "2"})}, {"rate(", values}, {"avg_over_time(", values}}
	srv := newServer(t, cAdvisor...)
	s := newTestPodSource(t, srv.URL)
	fetchPods(t, s)
	srv.setRules(append([]rule{{`(pod_cpu_usage_seconds_total{namespace!="",pod!=""}))`, vector(element{"", "2"})}}, cAdvisor...)...)
	for range 11 {
		fetchPods(t, s)
	}
	if asked := srv.asked(); len(asked) != 22 || !strings.Contains(asked[21], "container_memory") {
		t.Errorf("asked %q, want two queries for each of eleven fetches", asked)
	}
	fetchPods(t, s)
	if asked := srv.asked(); !strings.Contains(asked[len(asked)-1], "pod_memory_working_set_bytes") {
		t.Errorf("the twelfth fetch asked %q, want the kubelets' series", asked[22:])
	}
}

func TestFetchPods_OneResourceFails(t *testing.T) {
	srv := newServer(
		t, rule{"count(", vector(element{"", "2"})}, rule{"rate(", vector(podElement("shop", "web-1", "0.25"))},
		rule{"avg_over_time(", status(http.StatusServiceUnavailable, `{"status":"error","errorType":"timeout","error":"query timed out"}`)},
	)
	usages, failed := fetchPods(t, newTestPodSource(t, srv.URL))
	if failed[load.CPU] != nil || len(usages) != 1 {
		t.Errorf("got %v and %v, want the cpu", usages, failed[load.CPU])
	}
	check.Error(t, failed[load.Memory], "query timed out")
}

func TestFetchPods_HostileServer(t *testing.T) {
	for name, tt := range hostileResponses(t) {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, rule{"count(", vector(element{"", "2"})}, rule{"", tt.respond})
			_, failed := fetchPods(t, newTestPodSource(t, srv.URL))
			for _, err := range failed {
				check.Error(t, err, strings.Replace(tt.want, "200 nodes", "2 pods", 1))
				if len(err.Error()) > 1536 {
					t.Errorf("the error has %d bytes: %s", len(err.Error()), err)
				}
			}
		})
	}
}

func TestFetchPods_ErrorsHideToken(t *testing.T) {
	srv := newServer(t, rule{"", status(http.StatusBadGateway, "no backend for Bearer hunter2")})
	_, failed := fetchPods(t, newTestPodSource(t, srv.URL))
	check.Error(t, failed[load.CPU], "502")
	check.Lacks(t, failed[load.CPU].Error(), "hunter2")
}

func workloadElement(namespace, workload, value string) element {
	return element{fmt.Sprintf(`"namespace":%q,"workload":%q`, namespace, workload), value}
}

func fetchHistory(t *testing.T, s *PodSource, p source.Period) ([]source.WorkloadUsage, error) {
	t.Helper()
	var usages []source.WorkloadUsage
	_, err := s.FetchHistory(t.Context(), p, 1000, func(u *source.WorkloadUsage) { usages = append(usages, *u) })
	return usages, err
}

// sixHours is looked at twelve times.
var sixHours = source.Period{End: time.Unix(1700000000, 0), Length: 6 * time.Hour, Step: 30 * time.Minute}

func TestFetchHistory(t *testing.T) {
	srv := newServer(
		t,
		rule{"(namespace, pod) (pod_cpu_usage_seconds_total{namespace!=\"\",pod!=\"\"}))", vector(element{"", "2"})},
		// Two pods at each look, of one and of three cores; and workloads that one of the queries leaves out.
		rule{") ^ 0)[6h:30m]", vector(workloadElement("shop", "web", "24"), workloadElement("shop", "counted", "12"), element{`"namespace":"shop"`, "12"})},
		rule{") ^ 2)[6h:30m]", vector(workloadElement("shop", "web", "120"), workloadElement("shop", "squared", "12"), element{`"namespace":"shop"`, "12"})},
		rule{"pod_cpu_usage_seconds_total", vector(workloadElement("shop", "web", "48"), workloadElement("shop", "counted", "12"), element{`"namespace":"shop"`, "12"})},
	)
	usages := check.Value(fetchHistory(t, newTestPodSource(t, srv.URL), sixHours))(t)
	want := []source.WorkloadUsage{{Namespace: "shop", Workload: "web", Resource: load.CPU, Pods: 2, Sum: 4000, SumSquares: 10e6}}
	check.Equal(t, "usages", want, usages, equateValues())
	for i, r := range srv.requests {
		if promql := r.FormValue("query"); strings.HasPrefix(promql, "topk(1000, ") && r.FormValue("time") != "1700000000" {
			t.Errorf("request %d asks for %s at %q", i, promql, r.FormValue("time"))
		}
		if strings.Contains(r.FormValue("query"), " and topk(") {
			t.Errorf("request %d joins the largest, and none is left out: %s", i, r.FormValue("query"))
		}
	}
}

// TestFetchHistory_LargestByUsage reads two workloads. Others have more pods, and more squared usage.
func TestFetchHistory_LargestByUsage(t *testing.T) {
	sums := func(a, b string) func(http.ResponseWriter, *http.Request) {
		return vector(workloadElement("shop", a, "12"), workloadElement("shop", b, "12"))
	}
	srv := newServer(t,
		rule{"count(", vector(element{"", "2"})}, rule{"plimsoll:", vector()},
		rule{" and topk(2, sum by (namespace, workload) (", sums("large", "larger")},
		rule{") ^ 0)", sums("many", "more")}, rule{") ^ 2)", sums("large", "bursty")}, rule{"topk(2, ", sums("large", "larger")},
	)
	var got []string
	check.Value(newTestPodSource(t, srv.URL).FetchHistory(t.Context(), sixHours, 2, func(u *source.WorkloadUsage) {
		got = append(got, fmt.Sprint(u.Resource, " ", u.Workload, " ", u.Pods, " ", u.SumSquares))
	}))(t)
	// 12 looks have a sum of 12. Squares are of milliCPU, or of bytes.
	want := []string{"cpu large 1 1e+06", "cpu larger 1 1e+06", "memory large 1 1", "memory larger 1 1"}
	check.Equal(t, "workloads", want, got)
}

// TestFetchHistory_PartialAnswer has warnings that data is missing, and others. What is read of the past counts for good.
func TestFetchHistory_PartialAnswer(t *testing.T) {
	for beside, want := range map[string]string{
		`"warnings":["No StoreAPIs matched for this query"]`: "", // before the first data of any store
		`"isPartial":true`:  "a part of the data is missing: the response is partial",
		`"isPartial":false`: "",
		`"warnings":["PromQL a","PromQL b","PromQL c","PromQL d","PromQL e","7 more warning annotations omitted"]`:              "",
		`"warnings":["PromQL a","PromQL b","PromQL c","PromQL d","PromQL e","receive: EOF","PromQL f"]`:                         "a part of the data is missing: receive: EOF",
		`"warnings":["PromQL a","PromQL b","PromQL c","PromQL d"],"infos":["7 more info annotations omitted"],"isPartial":true`: "a part of the data is missing: the response is partial",
		`"warnings":["PromQL warning: encountered a mix of histograms"]`:                                                        "",
		`"infos":["PromQL info: metric might not be a counter"]`:                                                                "",
		`"infos":["PromQL info: x"],"warnings":["fetch series for {}"]`:                                                         "a part of the data is missing: fetch series for {}",
		`"warnings":["PromQL warning: x","PromQL info: x","receive: EOF"]`:                                                      "a part of the data is missing: receive: EOF",
	} {
		for _, query := range []string{"plimsoll:", "topk(1000, "} {
			with := func(elements ...element) func(http.ResponseWriter, *http.Request) {
				return body(strings.Replace(vectorText(elements...), `"status":"success"`, `"status":"success",`+beside, 1))
			}
			srv := newServer(t, rule{query, with()}, rule{"count(", vector(element{"", "2"})})
			_, err := fetchHistory(t, newTestPodSource(t, srv.URL), sixHours)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s of %s: %v, want %q", beside, query, err, want)
			}
			// Of the present, what is known counts.
			srv.setRules(rule{"count(", with(element{"", "2"})}, rule{"rate(", with(podElement("shop", "web-1", "0.25"))})
			s := newTestPodSource(t, srv.URL)
			if usages, failed := fetchPods(t, s); len(usages) != 1 || failed != [load.ResourceCount]error{} {
				t.Errorf("%s: %v, %v; want the usage of web-1", beside, usages, failed)
			}
			if counted := s.TakeRejected()[load.PartialResponse]; (counted > 0) != (want != "") {
				t.Errorf("%s: counted as partial %d times", beside, counted)
			}
		}
	}
}

// TestFetchHistory_Incomplete counts the pods that ran an hour before the end of the period: 30 of shop and 4 of mon. Others began
// later. A namespace's pods of the past are no substitute for another's.
func TestFetchHistory_Incomplete(t *testing.T) {
	hourAgo := metav1.NewTime(sixHours.End.Add(-time.Hour))
	lister := podLister(t, map[string]int{"shop": 30, "mon": 4, "new": 9})
	pods, err := lister.List(labels.Everything())
	check.OK(t, err)
	for _, pod := range pods {
		pod.Status.StartTime = &hourAgo
		if pod.Namespace == "new" {
			pod.Status.StartTime = &metav1.Time{Time: sixHours.End}
		}
	}
	for name, tt := range map[string]struct {
		shop, mon string
		missing   float64
		want      string
	}{
		"a lost store":              {"21", "4", 0, "the response has 25 of 34 pods that ran then"},
		"pods that are gone":        {"90", "0", 0, "the response has 30 of 34 pods that ran then"},
		"a pod or three are new":    {"30", "1", 0, "3 of 34 are missing"},
		"all":                       {"99", "4", 0, "0 of 34 are missing"},
		"before the server's data":  {"0", "0", 0, "34 of 34 are missing"},
		"no pod ran then":           {"", "0", 0, "34 of 34 are missing"}, // they have no start
		"missing pods are accepted": {"21", "4", 9.0 / 34, "9 of 34 are missing"},
		"more are missing":          {"19", "2", 9.0 / 34, "has 21 of 34 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			past := vector(countElement("shop", tt.shop), countElement("mon", tt.mon), countElement("new", "9"))
			srv := newServer(t, rule{"count(", func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("time") == "1700000000" {
					past(w, r)
				} else {
					vector(countElement("shop", "30"))(w, r)
				}
			}}, rule{"", vector()})
			s := newTestPodSource(t, srv.URL)
			s.lister = lister
			period := sixHours
			period.Missing = tt.missing
			if tt.shop == "" {
				s.lister = podLister(t, map[string]int{"shop": 30})
			}
			missing, err := s.FetchHistory(t.Context(), period, 1000, func(*source.WorkloadUsage) {})
			got := fmt.Sprintf("%.0f of 34 are missing", 34*missing)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			check.Equal(t, "counted", err != nil, s.TakeRejected()[load.IncompleteResponse] == 1)
		})
	}
}

// TestFetchHistory_FakeWorkloadsDisplaceNothing has a tenant's pod write series of as many workloads as are read.
func TestFetchHistory_FakeWorkloadsDisplaceNothing(t *testing.T) {
	var fake []element
	for i := range 1000 {
		fake = append(fake, workloadElement("mallory", fmt.Sprint("w-", i), "9000"))
	}
	srv := newServer(t,
		rule{"count(", vector(countElement("shop", "2"), countElement("mallory", "1"))},
		rule{"plimsoll:", vector()},
		rule{`namespace!~"mallory"`, vector(workloadElement("shop", "web", "24"))},
		rule{"topk(1000, ", vector(fake...)},
	)
	s := newTestPodSource(t, srv.URL)
	s.lister = podLister(t, map[string]int{"shop": 2, "mallory": 1})
	usages := check.Value(fetchHistory(t, s, sixHours))(t)
	if len(usages) != int(load.ResourceCount) || usages[0].Workload != "web" || usages[1].Workload != "web" {
		t.Errorf("%d usages, the first of %s; want cpu and memory of web", len(usages), usages[0].Workload)
	}
}

func TestFetchHistory_PrefersRecordingRules(t *testing.T) {
	srv := newServer(t,
		rule{"(namespace, pod) (pod_cpu_usage_seconds_total{namespace!=\"\",pod!=\"\"}))", vector(element{"", "2"})},
		rule{"plimsoll:workload_memory_usage_bytes:count", vector(workloadElement("shop", "web", "72"))},
		rule{"plimsoll:workload_memory_usage_bytes:sum_of_squares", vector(workloadElement("shop", "web", "18"))},
		rule{"plimsoll:workload_memory_usage_bytes:sum", vector(workloadElement("shop", "web", "36"))},
	)
	usages := check.Value(fetchHistory(t, newTestPodSource(t, srv.URL), sixHours))(t)
	// Six hours have 72 records.
	want := []source.WorkloadUsage{{Namespace: "shop", Workload: "web", Resource: load.Memory, Pods: 1, Sum: .5, SumSquares: .25}}
	check.Equal(t, "usages", want, usages, equateValues())
	for _, promql := range srv.asked() {
		check.Lacks(t, promql, "memory_working_set")
	}
}

// TestFetchHistory_RulesOfAPart has rules that recorded some of the twelve moments of an hour. Ten are enough.
func TestFetchHistory_RulesOfAPart(t *testing.T) {
	for looks, want := range map[string]source.WorkloadUsage{
		// The measured series have one pod of 2 cores; the rules two pods, of 0.5 and of 1.5 cores, at each of ten looks.
		"0":  {Pods: 1, Sum: 2000, SumSquares: 4e6},
		"5":  {Pods: 1, Sum: 2000, SumSquares: 4e6},
		"9":  {Pods: 1, Sum: 2000, SumSquares: 4e6},
		"10": {Pods: 2, Sum: 2000, SumSquares: 2.5e6},
	} {
		web := func(sum string) func(http.ResponseWriter, *http.Request) {
			return vector(workloadElement("shop", "web", sum))
		}
		srv := newServer(t,
			rule{"count(count", vector(element{"", "2"})},
			rule{"topk(1, count_over_time(plimsoll:workload_cpu_usage_cores:count{", web(looks)},
			rule{"plimsoll:workload_cpu_usage_cores:count{", web("20")},
			rule{"plimsoll:workload_cpu_usage_cores:sum{", web("20")},
			rule{"plimsoll:workload_cpu_usage_cores:sum_of_squares{", web("25")},
			rule{"plimsoll:", vector()}, rule{"memory", vector()},
			rule{") ^ 0)[1h:5m]", web("12")}, rule{") ^ 2)[1h:5m]", web("48")}, rule{")[1h:5m]", web("24")},
		)
		usages := check.Value(fetchHistory(t, newTestPodSource(t, srv.URL),
			source.Period{End: sixHours.End, Length: time.Hour, Step: 5 * time.Minute}))(t)
		want.Namespace, want.Workload = "shop", "web"
		check.Equal(t, fmt.Sprintf("of %s looks, usages", looks), []source.WorkloadUsage{want}, usages, equateValues())
	}
}

func TestFetchHistory_Refused(t *testing.T) {
	srv := newServer(
		t, rule{"count(", vector(element{"", "2"})}, rule{"plimsoll:", vector()},
		rule{"", status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`)},
	)
	_, err := fetchHistory(t, newTestPodSource(t, srv.URL), sixHours)
	check.Error(t, err, "history of cpu", "too many samples")
}

// podLister returns a lister of that many running pods of each namespace, and one that waits.
func podLister(t testing.TB, counts map[string]int) corelisters.PodLister {
	t.Helper()
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for namespace, count := range counts {
		for i := range count + 1 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("pod-", i)}}
			if pod.Status.Phase = corev1.PodRunning; i == count {
				pod.Status.Phase = corev1.PodPending
			}
			check.OK(t, pods.Add(pod))
		}
	}
	return corelisters.NewPodLister(pods)
}

func countElement(namespace, count string) element {
	return element{fmt.Sprintf(`"namespace":%q`, namespace), count}
}

// TestFetchPods_FakePodsDecideNothing has more series of a preferred family than pods: those of pods that do not exist.
func TestFetchPods_FakePodsDecideNothing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet []element
		want    string
	}{
		{"of one pod's namespace", []element{countElement("mallory", "9000")}, `container="",image=""`},
		{"of unknown namespaces", []element{countElement("x", "9000"), countElement("y", "9000")}, `container="",image=""`},
		{"of half of the pods", []element{countElement("shop", "19"), countElement("mallory", "9000")}, "pod_cpu_usage_seconds_total"},
		{"one below half of them", []element{countElement("shop", "18"), countElement("mallory", "9000")}, `container="",image=""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t,
				rule{`(pod_cpu_usage_seconds_total{namespace!="",pod!=""}))`, vector(tt.kubelet...)},
				rule{`pod!="",container="",image=""}))`, vector(countElement("shop", "39"), countElement("mallory", "1"))},
			)
			s := newTestPodSource(t, srv.URL)
			s.lister = podLister(t, map[string]int{"shop": 39, "mallory": 1})
			fetchPods(t, s)
			asked := srv.asked()
			check.Contains(t, asked[len(asked)-2], "rate(", tt.want)
		})
	}
}

// TestFetchPods_ManyNamespaces counts pods in more namespaces than a response may have: 10,000, and one for each known namespace.
func TestFetchPods_ManyNamespaces(t *testing.T) {
	elements := make([]element, 10_002)
	for i := range elements {
		elements[i] = countElement(fmt.Sprint("n", i), "1")
	}
	s := newTestPodSource(t, newServer(t, rule{"count(", vector(elements...)}).URL)
	s.lister = podLister(t, map[string]int{"shop": 1})
	_, failed := fetchPods(t, s)
	check.Error(t, failed[load.CPU], "count the pods of each namespace", "10001", "find the target that writes series of so many namespaces")
}

// TestFetchPods_KeepsTheFamily has another family measure more pods, or the one in use fewer than half of them.
func TestFetchPods_KeepsTheFamily(t *testing.T) {
	for count, want := range map[string]string{"20": `container="",image=""`, "19": "pod_cpu_usage_seconds_total"} {
		values := vector(podElement("shop", "pod-1", "0.25"))
		rules := func(count string) []rule {
			return []rule{{`pod!="",container="",image=""}))`, vector(countElement("shop", count))}, {"rate(", values}, {"avg_over_time(", values}}
		}
		srv := newServer(t, rules("40")...)
		s := newTestPodSource(t, srv.URL)
		s.lister = podLister(t, map[string]int{"shop": 40})
		fetchPods(t, s)
		srv.setRules(append([]rule{{`(pod_cpu_usage_seconds_total{namespace!="",pod!=""}))`, vector(countElement("shop", "40"))}}, rules(count)...)...)
		for range fetchesPerDetection {
			fetchPods(t, s)
		}
		asked := srv.asked()
		if got := asked[len(asked)-2]; !strings.Contains(got, want) {
			t.Errorf("with %s of 40 pods read %s, want %s", count, got, want)
		}
	}
}

// TestFetchPods_Shards has a namespace with more series than the bound allows.
func TestFetchPods_Shards(t *testing.T) {
	t.Run("too many series", func(t *testing.T) { testShards(t, vector) })
	t.Run("too many samples", func(t *testing.T) {
		testShards(t, func(elements ...element) func(http.ResponseWriter, *http.Request) {
			if len(elements) < 10100 {
				return vector(elements...)
			}
			return func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`))
			}
		})
	})
}

// refuse answers as Prometheus does to a query that needs too many samples.
func refuse(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`))
}

// TestFetchPods_AllShardsRefused has a Prometheus that refuses the query for each namespace: its own message is the reason.
func TestFetchPods_AllShardsRefused(t *testing.T) {
	srv := newServer(t, rule{"count(", vector(countElement("shop", "1"))}, rule{"", refuse})
	s := newTestPodSource(t, srv.URL)
	s.lister = podLister(t, map[string]int{"shop": 1, "team": 1})
	for range 2 {
		_, failed := fetchPods(t, s)
		for r, err := range failed {
			if err == nil || !strings.Contains(err.Error(), "would load too many samples") || s.LeftOut() != "" {
				t.Errorf("%s: %v, left out %q; want the message of Prometheus", load.Resource(r), err, s.LeftOut())
			}
		}
	}
}

// TestFetchPods_GivesUp bounds the queries of a fetch where Prometheus refuses those for each of 200 namespaces.
func TestFetchPods_GivesUp(t *testing.T) {
	namespaces := map[string]int{}
	for i := range 200 {
		namespaces[fmt.Sprintf("n-%03d", i)] = 1
	}
	srv := newServer(t, rule{"count(", vector(countElement("n-000", "1"))}, rule{"", refuse})
	s := newTestPodSource(t, srv.URL)
	s.lister = podLister(t, namespaces)
	_, failed := fetchPods(t, s)
	check.Error(t, failed[load.CPU], "too many samples")
	got := 0
	for _, query := range srv.asked() {
		if strings.HasPrefix(query, "min by (namespace, pod) ((rate(") {
			got++
		}
	}
	// All at once; 32 namespaces, halved down to each one, are 63 queries.
	check.Equal(t, "queries for cpu", 64, got)
}

// TestFetch_RefusedBesideOthers has Prometheus refuse each query that reads the series of a tenant, also to count them.
func TestFetch_RefusedBesideOthers(t *testing.T) {
	unless := func(answer func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			query := r.FormValue("query")
			if strings.Contains(query, `namespace!~"mallory"`) || strings.Contains(query, "namespace=~") && !strings.Contains(query, "mallory") {
				answer(w, r)
				return
			}
			refuse(w, r)
		}
	}
	srv := newServer(t,
		rule{"count(count", unless(vector(countElement("shop", "1")))}, rule{"plimsoll:", vector()},
		rule{"topk", unless(vector(element{`"namespace":"shop","workload":"web"`, "2"}))},
		rule{"", unless(vector(podElement("shop", "pod-0", "0.25")))},
	)
	s := newTestPodSource(t, srv.URL)
	s.lister = podLister(t, map[string]int{"mallory": 1, "shop": 1})
	usages, failed := fetchPods(t, s)
	if len(usages) != 2 || failed != [load.ResourceCount]error{} || s.LeftOut() != "mallory" {
		t.Errorf("%v, %v, left out %q; want the usages of shop alone", usages, failed, s.LeftOut())
	}
	history, err := fetchHistory(t, s, sixHours)
	if err != nil || len(history) != 2 || history[0].Namespace != "shop" {
		t.Errorf("history %v, %v; want that of shop alone", history, err)
	}
}

func testShards(t *testing.T, answerWith func(...element) func(http.ResponseWriter, *http.Request)) {
	t.Helper()
	var many []element
	for i := range 10100 {
		many = append(many, podElement("mallory", fmt.Sprint("fake-", i), "1"))
	}
	answer := func(metric string) rule {
		return rule{metric, func(w http.ResponseWriter, r *http.Request) {
			var elements []element
			query := r.FormValue("query")
			whole := !strings.Contains(query, "namespace=~")
			if whole || strings.Contains(query, "shop") {
				elements = append(elements, podElement("shop", "pod-0", "0.25"))
			}
			if whole || strings.Contains(query, "mallory") {
				elements = append(elements, many...)
			}
			answerWith(elements...)(w, r)
		}}
	}
	srv := newServer(t, rule{"count(", vector(countElement("shop", "1"))}, answer("rate("), answer("avg_over_time("))
	s := newTestPodSource(t, srv.URL)
	s.lister = podLister(t, map[string]int{"shop": 1, "mallory": 1, "team": 1})
	for range 2 {
		usages, failed := fetchPods(t, s)
		if failed != [load.ResourceCount]error{} {
			t.Fatal(failed)
		}
		want := []source.PodUsage{
			{Namespace: "shop", Pod: "pod-0", Resource: load.CPU, Usage: 250, Window: 5 * time.Minute},
			{Namespace: "shop", Pod: "pod-0", Resource: load.Memory, Usage: .25},
		}
		check.Equal(t, "usages", want, usages, equateValues())
		check.Equal(t, "left out", "mallory", s.LeftOut())
	}
}
