#!/usr/bin/env bash
# A namespaceSelector of pod anti-affinity that also selects namespaces which do not match it.
#
# Kubernetes v1.36.4, InterPodAffinity: a pod has required anti-affinity to pods app=a of namespaces that have no label "team"
# (DoesNotExist), or another team than red (NotIn). A pod app=a runs in namespace red, whose label is team=red. The selector does not
# match red, but Filter refuses the node. PreFilter resolves the selector to names of namespaces and then clears the selector, but it
# clears the selector of a copy of the term. The plugin then matches the selector against no labels, which DoesNotExist and NotIn accept:
# the term selects all namespaces. In does not accept, so its answers are right. v1.37.2 changes the term itself, and accepts the node.
#
# Output:
#
#   namespaceSelector, namespace of the pod app=a 1.36.4     1.37.2
#   team DoesNotExist, red                        refuses    accepts
#   team DoesNotExist, none                       refuses    refuses
#   team NotIn red, red                           refuses    accepts
#   team NotIn red, none                          refuses    refuses
#   team In blue, red                             accepts    accepts
#   team In blue, none                            accepts    accepts
set -euo pipefail
broken=36.4 fixed=37.2

export CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' GOWORK=off GOTOOLCHAIN=auto
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >main.go <<'END'
// Command finding asks InterPodAffinity whether a pod may run on a node that has one pod of another namespace.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// handle has the three things that the plugin takes from the scheduler.
type handle struct {
	fwk.Handle
	snapshot *cache.Snapshot
	factory  informers.SharedInformerFactory
}

func (h handle) SnapshotSharedLister() fwk.SharedLister                 { return h.snapshot }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) Parallelizer() fwk.Parallelizer                         { return parallelize.NewParallelizer(1) }

func main() {
	metrics.Register()
	in := metav1.LabelSelectorOpIn
	notIn := metav1.LabelSelectorOpNotIn
	absent := metav1.LabelSelectorOpDoesNotExist
	// Namespace red has the label team=red, and namespace none has no labels.
	for _, r := range []metav1.LabelSelectorRequirement{
		{Key: "team", Operator: absent},
		{Key: "team", Operator: notIn, Values: []string{"red"}},
		{Key: "team", Operator: in, Values: []string{"blue"}},
	} {
		for _, namespace := range []string{"red", "none"} {
			answer, err := ask(r, namespace)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			selector := strings.Join(append([]string{r.Key, string(r.Operator)}, r.Values...), " ")
			fmt.Printf("%s, %s|%s\n", selector, namespace, answer)
		}
	}
}

// ask returns Filter's answer for a pod whose anti-affinity selects namespaces by r, while a pod app=a of the namespace runs.
func ask(r metav1.LabelSelectorRequirement, namespace string) (string, error) {
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "z"}}}
	running := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "running", UID: "1", Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{NodeName: node.Name},
	}
	incoming := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "incoming", UID: "2"},
		Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:       "zone",
				LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}},
			}},
		}}},
	}

	factory := informers.NewSharedInformerFactory(nil, 0) // without a client, because nothing starts it
	namespaces := factory.Core().V1().Namespaces().Informer().GetStore()
	for name, labels := range map[string]map[string]string{"own": nil, "none": nil, "red": {"team": "red"}, "blue": {"team": "blue"}} {
		if err := namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			return "", err
		}
	}
	snapshot := cache.NewSnapshot([]*corev1.Pod{running}, []*corev1.Node{node})
	p, err := interpodaffinity.New(ctx, &config.InterPodAffinityArgs{}, handle{snapshot: snapshot, factory: factory}, feature.Features{})
	if err != nil {
		return "", err
	}
	plugin := p.(*interpodaffinity.InterPodAffinity)
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return "", err
	}
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(ctx, state, incoming, nodes); status.IsSkip() {
		return "accepts", nil
	} else if !status.IsSuccess() {
		return "", status.AsError()
	}
	switch status := plugin.Filter(ctx, state, incoming, nodes[0]); {
	case status.IsSuccess():
		return "accepts", nil
	case status.IsRejected():
		return "refuses", nil
	default:
		return "", status.AsError()
	}
}
END

# ask VERSION: builds the program with Kubernetes 1.VERSION, whose libraries are modules of version 0.VERSION, and prints its answers.
ask() {
	mkdir "$1"
	cp main.go "$1/"
	{
		printf 'module finding\n\nrequire k8s.io/kubernetes v1.%s\n\nreplace (\n' "$1"
		for library in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap \
			code-generator component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib \
			dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy \
			kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver streaming; do
			printf '\tk8s.io/%s => k8s.io/%s v0.%s\n' "$library" "$library" "$1"
		done
		echo ')'
	} >"$1/go.mod"
	timeout 1800 env -C "$1" go build -o finding . 2>build.log || {
		cat build.log >&2
		exit 1
	}
	timeout 60 "$1/finding"
}
ask "$broken" >broken
ask "$fixed" >fixed

printf '%-44s 1.%-8s 1.%s\n' 'namespaceSelector, namespace of the pod app=a' "$broken" "$fixed"
paste -d '|' broken fixed | while IFS='|' read -r question a _ b; do
	printf '%-45s %-10s %s\n' "$question" "$a" "$b"
done

cat >expected <<'END'
team DoesNotExist, red|refuses|team DoesNotExist, red|accepts
team DoesNotExist, none|refuses|team DoesNotExist, none|refuses
team NotIn red, red|refuses|team NotIn red, red|accepts
team NotIn red, none|refuses|team NotIn red, none|refuses
team In blue, red|accepts|team In blue, red|accepts
team In blue, none|accepts|team In blue, none|accepts
END
if ! paste -d '|' broken fixed | cmp -s - expected; then
	echo 'The behavior has changed.' >&2
	exit 1
fi
