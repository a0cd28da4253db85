package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestElect_LostLease has an API server that is down after 30 s. Another process may lead 15 s after the last renewal.
func TestElect_LostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, down := fake.NewClientset(), atomic.Bool{}
		client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("connection refused")
		})
		s := &server{client: client, namespace: "ns", name: "rebalancer", identity: "a", clock: clock.RealClock{}}
		time.AfterFunc(30*time.Second, func() { down.Store(true) })
		var ended time.Time
		err := s.elect(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			ended = time.Now()
			return nil
		})
		if err == nil || err.Error() != "the lease is lost" {
			t.Errorf("error %v, want the lease is lost", err)
		}
		down.Store(false)
		lease := check.Value(client.CoordinationV1().Leases("ns").Get(t.Context(), "rebalancer", metav1.GetOptions{}))(t)
		if since := ended.Sub(lease.Spec.RenewTime.Time); since >= 15*time.Second || ended.Before(lease.Spec.RenewTime.Time) {
			t.Errorf("it led until %v after the last renewal, want less than 15 s", since)
		}
	})
}

// TestElect_Ends ends by a signal, and by a leader that cannot lead.
func TestElect_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{client: fake.NewClientset(), namespace: "ns", name: "rebalancer", identity: "a", clock: clock.RealClock{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		led := false
		if err := s.elect(ctx, func(ctx context.Context) error { led = true; <-ctx.Done(); return nil }); err != nil || !led {
			t.Errorf("error %v after a signal, and it led: %t", err, led)
		}
		failed := errors.New("no load")
		if err := s.elect(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("error %v, want %v", err, failed)
		}
	})
}

// TestElect_Hangs leads, and never makes a step, as without permission to list an object. Ten minutes later it is not healthy.
func TestElect_Hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{
			client: fake.NewClientset(), namespace: "ns", name: "rebalancer", identity: "a", clock: clock.RealClock{}, metrics: http.NotFoundHandler(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, ended := make(chan bool), make(chan error, 1)
		go func() {
			ended <- s.elect(ctx, func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				return nil
			})
		}()
		<-began
		for _, want := range []int{http.StatusOK, http.StatusInternalServerError} {
			answer := httptest.NewRecorder()
			s.handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil))
			check.Equal(t, fmt.Sprintf("/healthz: %s", answer.Body), want, answer.Code)
			time.Sleep(10*time.Minute + time.Second)
		}
		cancel()
		check.OK(t, <-ended)
	})
}

// TestServer_Repeat has steps of 5 s. Each reads the pause at its begin, and may make moves until its end. A pause begins in each half
// second of two of them. No move is made 10 s later, as the operator is told.
func TestServer_Repeat(t *testing.T) {
	for after := range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := &server{clock: clock.RealClock{}, observer: newObserver(func(...metrics.Registerable) {})}
			began := time.Now()
			pause := began.Add(time.Duration(after)*time.Second/2 + time.Millisecond)
			ctx, cancel := context.WithDeadline(t.Context(), began.Add(59*time.Second))
			defer cancel()
			var last time.Time
			steps, refreshes := 0, 0
			s.repeat(ctx, func() time.Duration { return 15 * time.Second }, func(due bool) error {
				if steps++; due {
					refreshes++
				}
				paused := !time.Now().Before(pause)
				time.Sleep(5 * time.Second)
				if !paused {
					last = time.Now()
				}
				return nil
			})
			if since := last.Sub(pause); since >= 5*time.Second || steps != 12 || refreshes != 4 {
				t.Errorf("with a pause after %v, moves are made until %v later. Want less than 5 s, in 12 steps, and 4 refreshes; not %d and %d",
					pause.Sub(began), since, steps, refreshes)
			}
		})
	}
}

// TestObserver_Ended records what happened. Only a workload whose replacement is not ready elsewhere stays.
func TestObserver_Ended(t *testing.T) {
	for outcome, want := range map[plan.Outcome]string{
		plan.LandedHot: "Warning MoveFailed Pod ns/web-1 was moved, but its replacement is on node c, which is above its line (LandedHot)",
		plan.NotReady: "Warning MoveFailed Pod ns/web-1 was moved, but its replacement is not ready elsewhere (NotReady). " +
			"ReplicaSet web stays for a while",
	} {
		recorder := events.NewFakeRecorder(1)
		o := newObserver(func(...metrics.Registerable) {})
		o.events = recorder
		o.Ended(&plan.Record{Outcome: outcome, Node: "c", Moving: plan.Moving{Move: plan.Move{
			Namespace: "ns", Pod: "web-1", From: "a", To: "b", Owner: plan.Owner{Kind: "ReplicaSet", Name: "web"},
		}}})
		check.Equal(t, "the event", want, <-recorder.Events)
	}
}
