package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

const twenty = `{"items": [
  {"metadata": {"namespace": "other", "name": "group"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}},
  {"metadata": {"namespace": "shop", "name": "group"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 20}}}, "status": {"conditions": [
    {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "no\u001b room"}]}}
]}`

func TestReadPodGroups(t *testing.T) {
	member := func(node string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{NodeName: node}}
		if !minortest.JoinPodGroup(pod) {
			t.Skip("this version of Kubernetes has no pod groups")
		}
		return pod
	}
	deleted := member("")
	deleted.DeletionTimestamp = &metav1.Time{}
	pods := []*corev1.Pod{{}, member("a"), member(""), member("a"), deleted}
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		// served is the version with groups, body what it answers, and code the status of its answer.
		served, body string
		code         int
		requests     int
		// want is what is said of the group; empty if there are no groups.
		want, err string
	}{
		{"no pod names a group", pods[:1], "v1beta1", twenty, 200, 0, "", ""},
		{"a minimum", pods, "v1beta1", twenty, 200, 1, "Group shop/group, minimum 20: 2 bound, 1 waiting, 17 missing: none is placed.", ""},
		{"Kubernetes 1.36", pods, "v1alpha2", twenty, 200, 2, "Group shop/group, minimum 20: 2 bound, 1 waiting, 17 missing: none is placed.", ""},
		{"without the feature gate", pods, "", "", 404, 2, "", ""},
		{"the group does not exist", pods, "v1beta1", `{"items": []}`, 200, 1, "Group shop/group does not exist: none of its 1 waiting pod is placed.", ""},
		{"no minimum", pods, "v1beta1", strings.Replace(twenty, `"gang": {"minCount": 20}`, `"basic": {}`, 1), 200, 1, "Group shop/group: 2 bound, 1 waiting.", ""},
		{"partly simulated: a topology", pods, "v1beta1", strings.Replace(twenty, `"minCount": 20}}`, `"minCount": 20}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}`, 1), 200, 1, "Group shop/group, minimum 20: 2 bound, 1 waiting, 17 missing: none is placed.", ""},
		{"partly simulated: a parent", pods, "v1beta1", strings.Replace(twenty, `"minCount": 20}}`, `"minCount": 20}}, "parentCompositePodGroupName": "all"`, 1), 200, 1, "Group shop/group, minimum 20: 2 bound, 1 waiting, 17 missing: none is placed.", ""},
		{"no permission", pods, "v1beta1", `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "podgroups is forbidden"}`, 403, 1, "Group shop/group: 2 bound, 1 waiting.", "forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				if r.URL.Path != "/apis/scheduling.k8s.io/"+tt.served+"/podgroups" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			client := check.Value(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t)
			groups, err := cluster.ReadPodGroups(t.Context(), client, tt.pods)
			if tt.err == "" {
				check.OK(t, err)
			} else {
				check.Error(t, err, tt.err)
			}
			check.Equal(t, "requests", tt.requests, requests)
			got := ""
			if g := groups.Of(pods[1]); g != nil {
				got = g.String()
				check.Equal(t, "a waiting pod", pods[2], g.First)
				check.Equal(t, "whether a trial leaves something out", strings.HasPrefix(tt.name, "partly"), g.Partial)
				if tt.body == twenty {
					check.Equal(t, "why it was not placed", `no\x1b room`, g.Unplaced)
				}
			}
			check.Equal(t, "the group", tt.want, got)
			objects := &cluster.Objects{}
			known := (&cluster.Connection{Client: client, KubeConfig: &rest.Config{}}).PodGroups(t.Context(), nil, objects, tt.pods)
			check.Equal(t, "missing kinds, and groups in spite of them", [2]bool{tt.err != "", false},
				[2]bool{len(objects.Missing) == 1, tt.err != "" && known != nil})
		})
	}
	ungated := &cluster.Workload{Args: []string{"kube-scheduler"}} // no request is sent: there is no client
	check.Equal(t, "groups of pods that are placed one by one", nil, (&cluster.Connection{}).PodGroups(t.Context(), ungated, nil, pods))
}

// 2 of at least 20 pods have a node. Of 18 waiting pods, 17 are too few.
func TestPodGroup_Try(t *testing.T) {
	group := func() *cluster.PodGroup {
		return &cluster.PodGroup{Namespace: "shop", Name: "train", MinCount: 20, Bound: 2, Waiting: 18}
	}
	for fitting, want := range map[int]string{
		17: "Group shop/train, minimum 20: 2 bound, 18 waiting. 17 of 18 fit: none is placed.",
		18: "Group shop/train, minimum 20: 2 bound, 18 waiting. 18 of 18 fit and are placed.",
	} {
		g := group()
		check.Equal(t, "it is placed", fitting == 18, g.Try(fitting, 0))
		check.Equal(t, "the group", want, g.String())
	}
	g := group()
	g.Bound, g.Waiting = 20, 2 // two of its pods are created again
	check.Equal(t, "one by one, pods are placed", [2]bool{true, true}, [2]bool{g.Try(1, 3), g.Try(0, 0)})
	check.Equal(t, "the group", "Group shop/train, minimum 20: 20 bound, 2 waiting. 1 of 2 fit and are placed, in place of 3 other pods.", g.String())
	g.Partial = true
	check.Equal(t, "a group with a topology",
		"Group shop/train, minimum 20: 20 bound, 2 waiting. 1 of 2 fit, if its topology and its parent group allow it, in place of 3 other pods.", g.String())
	check.Equal(t, "the trial", cluster.GroupTrial{Fitting: 1, Placed: 1, Preempted: 3}, *g.Trial)
}
