package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// serve returns a client of an API server that responds with this.
func serve(t *testing.T, respond http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		respond(w, r)
	}))
	return check.Value(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t)
}

func TestEvictor(t *testing.T) {
	for i, tc := range []struct {
		name, message string
		code          int32
		reason        metav1.StatusReason
		fails         bool
	}{
		{"evicted", "", 201, "", false},
		{"a budget", "Cannot evict pod as it would violate the pod's disruption budget.", 429, metav1.StatusReasonTooManyRequests, false},
		{"a webhook", "denied", 403, metav1.StatusReasonForbidden, false},
		{"a webhook without a message", "", 403, metav1.StatusReasonForbidden, false},
		{"no such pod", "not found", 404, metav1.StatusReasonNotFound, false},
		{"another pod of the name", "the UID in the precondition differs", 409, metav1.StatusReasonConflict, false},
		{"a broken webhook", "failed calling webhook", 500, metav1.StatusReasonInternalError, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got policyv1.Eviction
			var query string
			dryRun := i%2 == 0 // every other one
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				query = r.URL.RawQuery
				if r.URL.Path != "/api/v1/namespaces/ns/pods/p/eviction" || json.NewDecoder(r.Body).Decode(&got) != nil {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				status := metav1.Status{Status: metav1.StatusSuccess, Code: tc.code, Reason: tc.reason, Message: tc.message}
				status.Kind, status.APIVersion = "Status", "v1"
				if tc.code >= 400 {
					status.Status = metav1.StatusFailure
				}
				w.WriteHeader(int(tc.code))
				_ = json.NewEncoder(w).Encode(status)
			})
			refusal, err := Evictor{client}.Evict(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"}, "u", dryRun)
			refused := tc.code >= 400 && !tc.fails
			if (refusal != "") != refused || (err != nil) != tc.fails || refused && !strings.Contains(refusal, tc.message) {
				t.Errorf("refused by %q, error %v; want %t", refusal, err, refused)
			}
			if o := got.DeleteOptions; o == nil || *o.Preconditions.UID != "u" {
				t.Errorf("the eviction is %+v, want one for the UID", got)
			}
			if want := map[bool]string{true: "dryRun=All"}[dryRun]; query != want { // webhooks see no other dry run
				t.Errorf("the query is %q, want %q", query, want)
			}
		})
	}
}

func TestEvictor_Pod(t *testing.T) {
	for _, tc := range []struct {
		name  string
		code  int
		held  any
		want  types.UID
		fails bool
	}{
		{"there is one", 200, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}, "u", false},
		{"there is none", 404, &metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}, "", false},
		{"no permission", 403, &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/namespaces/ns/pods/p" || r.URL.RawQuery != "" { // not from the watch cache
					t.Errorf("%s %s", r.Method, r.URL)
				}
				w.WriteHeader(tc.code)
				_ = json.NewEncoder(w).Encode(tc.held)
			})
			pod, err := Evictor{client}.Pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"})
			if (err != nil) != tc.fails || err == nil && (pod != nil) != (tc.want != "") || err == nil && pod != nil && pod.UID != tc.want {
				t.Errorf("got %+v, %v; want the UID %q", pod, err, tc.want)
			}
		})
	}
}

// TestStore saves the state unless the ConfigMap has changed since.
func TestStore(t *testing.T) {
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: "1"}}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.Method+": Path", "/api/v1/namespaces/ns/configmaps/s", r.URL.Path)
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent := &corev1.ConfigMap{}
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, sent); err != nil {
				t.Error(err)
			}
			sent.TypeMeta = metav1.TypeMeta{}
			if sent.ResourceVersion != held.ResourceVersion {
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: 409, Reason: metav1.StatusReasonConflict})
				return
			}
			sent.ResourceVersion += "1"
			held = sent
		}
		_ = json.NewEncoder(w).Encode(held)
	})
	s := &Store{Client: client, Namespace: "ns", Name: "s"}
	if err := s.Save(t.Context(), nil); err == nil {
		t.Error("it saves without a state that was read")
	}
	for i, want := range map[int]bool{0: false, 1: true} {
		held.Annotations = map[string]string{plan.PausedAnnotation: map[bool]string{true: "true", false: "false"}[want]}
		if _, paused, err := s.Load(t.Context()); err != nil || paused != want {
			t.Errorf("load %d: paused %t, %v; want %t", i, paused, err, want)
		}
	}
	for _, state := range []string{"first", "second"} { // the second without another look
		if err := s.Save(t.Context(), []byte(state)); err != nil || string(StateOf(held)) != state {
			t.Errorf("saved %q with error %v, want %s", StateOf(held), err, state)
		}
	}
	held.ResourceVersion = "9"
	if err := s.Save(t.Context(), []byte("third")); !apierrors.IsConflict(err) || string(StateOf(held)) != "second" {
		t.Errorf("saved %q with error %v, want a conflict", StateOf(held), err)
	}
}

// TestLease_Down has a duration of 15 s. The clock of the scheduler's machine may differ.
func TestLease_Down(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	renewed := func(at time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("s"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: at},
			},
		}
	}
	released := renewed(now)
	released.Spec.HolderIdentity = ptr.To("")
	var held *coordinationv1.Lease
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if held == nil {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound})
			return
		}
		_ = json.NewEncoder(w).Encode(held)
	})
	clock := clocktesting.NewFakePassiveClock(now)
	l := &Lease{Client: client, Clock: clock, Namespace: "ns", Name: "s"}
	for i, step := range []struct {
		lease *coordinationv1.Lease
		after time.Duration
		want  string
		// restarted says that nothing was seen before.
		restarted bool
	}{
		{nil, 0, "no scheduler leads yet", false},
		{renewed(now.Add(-16 * time.Second)), 0, "the scheduler is down: it last renewed the Lease ns/s at 2026-01-02T02:59:44Z", false},
		{renewed(now.Add(-10 * time.Second)), time.Second, "", false}, // it was renewed after the first look
		{renewed(now.Add(-10 * time.Second)), 16 * time.Second, "", false},
		{renewed(now.Add(-10 * time.Second)), 17 * time.Second, "the scheduler is down", false},
		{renewed(now.Add(-9 * time.Second)), 18 * time.Second, "", false}, // a clock that is late
		{released, 19 * time.Second, "has no holder", false},
		{renewed(now.Add(time.Hour)), 20 * time.Second, "", true}, // this clock is late, and nothing renews the lease
		{renewed(now.Add(time.Hour)), 35 * time.Second, "", false},
		{renewed(now.Add(time.Hour)), 36 * time.Second, "the scheduler is down", false},
		{renewed(now.Add(40 * time.Second)), 40 * time.Second, "", false},
		// For an hour nobody looks, as during a pause. The scheduler renews once more, and dies.
		{renewed(now.Add(time.Minute)), time.Hour, "the scheduler is down: it last renewed the Lease ns/s at 2026-01-02T03:01:00Z", false},
		{renewed(now.Add(time.Minute)), time.Hour + time.Second, "the scheduler is down", false},
		{renewed(now.Add(time.Minute + time.Second)), time.Hour + 2*time.Second, "", false}, // it is back, with a clock that is late
		{renewed(now.Add(2*time.Hour - 15*time.Second)), 2 * time.Hour, "", false},          // it was up meanwhile
	} {
		held = step.lease
		clock.SetTime(now.Add(step.after))
		if step.restarted {
			l = &Lease{Client: client, Clock: clock, Namespace: "ns", Name: "s"}
		}
		got, err := l.Down(t.Context())
		if err != nil || (step.want == "") != (got == "") || !strings.Contains(got, step.want) {
			t.Errorf("step %d: %q, %v; want %q", i, got, err, step.want)
		}
	}
}

// Origins are those of the one rebalancer. A move without a replacement has none. They are nothing without one, or without permission. The ConfigMap of a tenant is not read.
func TestOrigins(t *testing.T) {
	labelsOf := func(label string) map[string]string {
		name, value, _ := strings.Cut(label, "=")
		return map[string]string{name: value}
	}
	const state = `{"records":[{"pod":"web-1","from":"%s","resource":"cpu","outcome":"Landed","replacementUID":"u-2"},` +
		`{"pod":"web-3","resource":"cpu","outcome":"NotReady"}]}`
	for _, tc := range []struct {
		name      string
		bound     []string
		fails     error
		want, err string
	}{
		{"one rebalancer", []string{"a"}, nil, "a", ""},
		{"bound twice", []string{"a", "a"}, nil, "a", ""},
		{"none", nil, nil, "", ""},
		{"a state that was deleted", []string{"deleted"}, nil, "", ""},
		{"another component", []string{"unlabeled", "b"}, nil, "b", ""},
		{"two", []string{"a", "b"}, nil, "", "several rebalancers are installed"},
		{"no permission", nil, apierrors.NewForbidden(schema.GroupResource{}, "", nil), "", ""},
		{"another error", nil, apierrors.NewInternalError(errors.New("broken")), "", "read moved pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var objects []runtime.Object
			for _, name := range []string{"a", "b", "tenant", "unlabeled"} {
				c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
				if name != "unlabeled" {
					c.Labels = labelsOf(StateLabel)
				}
				c.Data = map[string]string{stateKey: fmt.Sprintf(state, name)}
				objects = append(objects, c)
			}
			for i, name := range tc.bound {
				objects = append(objects, &rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: labelsOf(BindingLabel)},
					Subjects: []rbacv1.Subject{
						{Kind: "User", Namespace: "ns", Name: "tenant"}, {Kind: "ServiceAccount", Namespace: "ns", Name: name},
					},
				})
			}
			objects = append(objects, &rbacv1.ClusterRoleBinding{ // of another program
				ObjectMeta: metav1.ObjectMeta{Name: "other"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "tenant"}},
			})
			client := fake.NewClientset(objects...)
			client.PrependReactor("list", "clusterrolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.fails != nil, nil, tc.fails
			})
			origins, err := Origins(t.Context(), client)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got the error %v, want %q", err, tc.err)
			}
			switch o := origins["u-2"]; {
			case tc.want == "" && len(origins) > 0:
				t.Errorf("got %+v, want none", origins)
			case tc.want != "" && (o == nil || len(origins) != 1 || o.Pod != "web-1" || o.From != tc.want):
				t.Errorf("got %+v, want web-1 from %s", o, tc.want)
			}
		})
	}
}
