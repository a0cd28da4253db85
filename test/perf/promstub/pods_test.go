package promstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestPods_ObeyTopk has three workloads of two pods each. A client refuses more than it asked for.
func TestPods_ObeyTopk(t *testing.T) {
	var pods []Pod
	for i := range 6 {
		pods = append(pods, Pod{Namespace: "shop", Name: fmt.Sprint("pod-", i), Workload: fmt.Sprint("workload-", i/2)})
	}
	server := httptest.NewServer(&Server{Gzip: true, Pods: NewPods(pods)})
	defer server.Close()
	for query, want := range map[string]int{
		`topk(2, sum by (namespace, workload) (rate(a{namespace!="",pod!=""}[5m])))`:  2,
		`topk(20, sum by (namespace, workload) (rate(a{namespace!="",pod!=""}[5m])))`: 3,
		`sum by (namespace, pod) (rate(a{namespace!="",pod!=""}[5m]))`:                6,
	} {
		response := check.Value(http.Get(server.URL + "/api/v1/query?query=" + url.QueryEscape(query)))(t)
		var body struct{ Data struct{ Result []any } }
		check.OK(t, json.NewDecoder(response.Body).Decode(&body))
		check.OK(t, response.Body.Close())
		check.Equal(t, query+" series", want, len(body.Data.Result))
	}
}
