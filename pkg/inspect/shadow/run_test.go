package shadow

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestServer_ServesReport(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	s := &Server{Options: Options{Tally: NewTally(c, metrics.NewKubeRegistry().MustRegister)}, Metrics: http.NotFoundHandler()}
	s.Tally.decided(Workload{Namespace: "shop", Name: "web"}, Elsewhere)
	for path, want := range map[string]int{
		Path: 200, Path + "?hours=24": 200, Path + "?hours=25": 400, Path + "?hours=0": 400, Path + "?hours=x": 400,
		"/healthz": 200, "/readyz": 503,
	} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		check.Equal(t, path+": status", want, w.Code)
		if path != Path {
			continue
		}
		var got Report
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Total != (Counts{Pods: 1, Elsewhere: 1}) {
			t.Errorf("%s: %+v, %v", path, got.Total, err)
		}
	}
	s.ready.Store(true)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	check.Equal(t, "/readyz: status once ready", http.StatusOK, w.Code)
}
