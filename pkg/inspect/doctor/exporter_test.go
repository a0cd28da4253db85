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

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// TestExporter has three runs: with an error among the results, without one, and without results. The clock starts at 946684800 s.
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
		go func() {
			if err := e.Run(ctx, time.Minute); err != nil {
				t.Error(err)
			}
		}()
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

// TestExporter_WrongOption expects a wrong option to end the first run only. Later, it may be a Deployment that was deleted.
func TestExporter_WrongOption(t *testing.T) {
	wrong := cluster.OptionErrorf("--config: no such file")
	for name, tt := range map[string]struct {
		runs []error
		want error
	}{"at first": {[]error{wrong}, wrong}, "later": {[]error{nil, wrong, nil}, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				runs := 0
				e := NewExporter(func(context.Context) (*Report, error) {
					runs++
					if runs == len(tt.runs) {
						cancel()
					}
					return sampleReport(), tt.runs[runs-1]
				}, clock.RealClock{})
				if got := e.Run(ctx, time.Minute); !errors.Is(got, tt.want) || runs != len(tt.runs) {
					t.Errorf("%v after %d runs, want %v after %d", got, runs, tt.want, len(tt.runs))
				}
			})
		})
	}
}
