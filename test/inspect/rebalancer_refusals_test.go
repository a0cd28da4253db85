package inspect

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// webhooks refuse evictions of pods of the workload refused. Those of hanging get no answer, and those of late none after the dry run.
func webhooks(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		switch app, _, _ := strings.Cut(review.Request.Name, "-"); {
		case app == "refused":
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "this pod stays"}
		case app == "hanging", app == "late" && !ptr.Deref(review.Request.DryRun, false):
			<-r.Context().Done()
			return
		}
		review.Response = answer
		_ = json.NewEncoder(w).Encode(review) // or else the API server has hung up
	}))
	t.Cleanup(server.Close)
	hooks := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "evictions"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "evictions.plimsoll.test", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](10),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			// The API server asks about pods of these workloads only: others do not wait for a slow test.
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "workloads", Expression: `request.name.matches("^(refused|hanging|late)-")`,
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
			}},
		}},
	}, metav1.CreateOptions{})
	check.OK(t, err)
	t.Cleanup(func() { _ = hooks.Delete(context.WithoutCancel(ctx), "evictions", metav1.DeleteOptions{}) })
}

// forbidEvictions creates a PodDisruptionBudget of the workload that allows none. No controller sets its status here.
func forbidEvictions(t *testing.T, app string) {
	t.Helper()
	ctx, budgets := t.Context(), shared.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	check.Value(budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = budgets.Delete(context.WithoutCancel(ctx), app, metav1.DeleteOptions{}) })
}

// exhaust creates a quota without room for another pod of the priority class limited. No controller sets its status here.
func exhaust(t *testing.T) (lift func()) {
	t.Helper()
	ctx, quotas := t.Context(), shared.Client.CoreV1().ResourceQuotas(metav1.NamespaceDefault)
	check.OK(t, shared.CreatePriorityClass(ctx, "limited", 1))
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	q, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "limited"}, Spec: corev1.ResourceQuotaSpec{
		Hard: none, ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"limited"},
		}}},
	}}, metav1.CreateOptions{})
	check.OK(t, err)
	q.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	_, err = quotas.UpdateStatus(ctx, q, metav1.UpdateOptions{})
	check.OK(t, err)
	lift = func() { _ = quotas.Delete(context.WithoutCancel(ctx), "limited", metav1.DeleteOptions{}) }
	t.Cleanup(func() {
		lift()
		_ = shared.Client.SchedulingV1().PriorityClasses().Delete(context.WithoutCancel(ctx), "limited", metav1.DeleteOptions{})
	})
	return lift
}

// TestRebalancer_Refusals has a hot node for each fault of an eviction or of a replacement: 62.5 + 20 = 82.5 %. Destinations have
// 25 %. Webhooks stop three evictions and a budget one. Replacements of two workloads fail, and their other pods stay on hot nodes.
func TestRebalancer_Refusals(t *testing.T) {
	shared.clear(t)
	ctx := t.Context()
	runMoving(t, "refusals", movingConfiguration)
	webhooks(t)
	forbidEvictions(t, "budget")
	lift := exhaust(t)
	for _, name := range []string{"cool-0", "cool-1", "cool-2", "cool-3", "cool-4", "cool-5", "cool-6", "cool-7"} {
		createLoaded(t, name, "2")
	}
	for _, name := range []string{"quota-0", "quota-1", "never-0", "never-1", "budget-0", "refused-0", "hanging-0", "late-0"} {
		node := "hot-" + name
		createLoaded(t, node, "5")
		app, _, _ := strings.Cut(name, "-")
		check.OK(t, shared.CreatePods(ctx, member(app, name, node, "1600m")))
		if strings.HasSuffix(name, "0") {
			check.OK(t, shared.CreatePods(ctx, member(app, app+"-2", "cool-0", "10m")))
		}
	}
	// Once refused-0 is refused, its neighbor moves: 52.5 + 20 + 10 = 82.5 %.
	setLoad(t, "hot-refused-0", "4200m")
	check.OK(t, shared.CreatePods(ctx, member("next", "next-0", "hot-refused-0", "800m"), member("next", "next-2", "cool-0", "10m")))
	c := takeCensus(t)
	limited, never := member("quota", "", "", "1600m"), member("never", "", "", "1600m")
	limited.PriorityClass, never.NodeSelector = "limited", map[string]string{"no": "node"}
	replicate(t, 3, limited)
	replicate(t, 3, never)
	replicate(t, 2, member("next", "", "", "800m"))
	createState(t, metav1.NamespaceDefault)
	r := runRebalancer(t, "refusals-rebalancer", limits(t, faultyLimits+"replacementTimeout: 10s\nbreakerFailures: 100\n"),
		movingConfiguration, rebalancerAccount(t, rebalancerRules(t, api.Evict)...))

	r.until("five moves are planned", func() bool { // of quota and never one each
		return r.metric("planned_moves") == 5 && r.metric(`staying_pods{reason="WorkloadLimit"}`) == 2 &&
			r.metric(`staying_pods{reason="DisruptionBudget"}`) == 1
	})
	pause(t, false)
	late := func(app string) bool {
		return slices.ContainsFunc(stateOf(t).Records, func(r plan.Record) bool {
			return r.Owner.Name == app && r.Outcome == plan.NotReady
		})
	}
	// asked has the number of dry runs and of evictions, by the names of pods.
	asked := func() (n map[string][2]int) {
		n = map[string][2]int{}
		for _, e := range rebalancerRequests(t) {
			if e.ObjectRef.Subresource != "eviction" {
				continue
			}
			of := n[e.ObjectRef.Name]
			if strings.HasSuffix(e.RequestURI, "dryRun=All") {
				of[0]++
			} else {
				of[1]++
			}
			n[e.ObjectRef.Name] = of
		}
		return n
	}
	r.until("the replacements of quota and never are late", func() bool {
		n := asked()
		return late("quota") && late("never") && n["refused-0"][0] > 0 && n["hanging-0"][0] > 0 && n["late-0"][1] > 0 && slices.Contains(c.evicted(), "next-0")
	})
	// The other hot pods of quota and never stay, as those of budget, refused, hanging and late do.
	steps := r.steps()
	r.until("it rests", func() bool {
		return r.steps() >= steps+2 && r.metric(`staying_pods{reason="WorkloadBarred"}`) == 2
	})
	// An eviction follows each dry run that was accepted, and nothing is tried twice. Of quota and never, either hot pod moves.
	n := asked()
	for app, want := range map[string][2]int{
		"quota": {1, 1}, "never": {1, 1}, "budget": {0, 0}, "refused": {1, 0}, "hanging": {1, 0}, "late": {1, 1}, "next": {1, 1},
	} {
		first, second := n[app+"-0"], n[app+"-1"]
		check.Equal(t, fmt.Sprintf("dry runs and evictions of %s", app), want, [2]int{first[0] + second[0], first[1] + second[1]})
	}
	check.Value(shared.WaitEvent(ctx, "hot-refused-0", "PodMoved"))(t)
	lift()
	evicted := slices.Sorted(slices.Values(append(append(c.evicted("quota"), c.evicted("never")...), "next-0")))
	if len(evicted) != 3 {
		t.Errorf("%q were evicted, want one of quota and of never, and next-0", evicted)
	}
	c.wants(t, evicted, map[string]int{
		"quota": 3, "never": 2, "budget": 2, "refused": 2, "hanging": 2, "late": 2, "next": 2,
	})
}
