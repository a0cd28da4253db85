package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestExporter runs twice with results, of which the first has an error, and then without. The clock starts at 946684800 s.
func TestExporter(t *testing.T) {
	fixed := sampleReport()
	fixed.Checks[1].Status = OK
	reports := []*Report{sampleReport(), fixed, nil}
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		e := NewExporter(func(context.Context) (*Report, error) {
			runs++
			if r := reports[runs-1]; r != nil {
				return r, nil
			}
			return nil, errors.New("no API server")
		}, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.Run(ctx, time.Minute)
		for run, want := range [][]string{
			{
				`plimsoll_doctor_check{id="source.answers",status="error"} 1`, `plimsoll_doctor_check{id="source.answers",status="ok"} 0`,
				`plimsoll_doctor_check{id="pods.waiting",status="error"} 0`, "plimsoll_doctor_last_run_timestamp_seconds 9.466848e+08",
			},
			{
				`plimsoll_doctor_check{id="source.answers",status="error"} 0`, `plimsoll_doctor_check{id="source.answers",status="ok"} 1`,
				"plimsoll_doctor_last_run_timestamp_seconds 9.4668486e+08",
			},
			{
				`plimsoll_doctor_check{id="source.answers",status="ok"} 1`, "plimsoll_doctor_last_run_timestamp_seconds 9.4668486e+08",
				`plimsoll_doctor_runs_total{result="Error"} 1`, `plimsoll_doctor_runs_total{result="Success"} 2`,
			},
		} {
			synctest.Wait()
			recorder := httptest.NewRecorder()
			e.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			for _, line := range want {
				if !strings.Contains(recorder.Body.String(), line+"\n") {
					t.Errorf("run %d: %s is missing:\n%s", run, line, recorder.Body)
				}
			}
			if run < len(reports)-1 {
				time.Sleep(time.Minute)
			}
		}
	})
}
