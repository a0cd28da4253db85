// Package kube evicts pods through the API server, and keeps the rebalancer's state there.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// requestTimeout bounds each request. It is longer than that of webhooks, which is 30 s at most.
const requestTimeout = 35 * time.Second

// Evictor evicts pods by the eviction API.
type Evictor struct{ Client kubernetes.Interface }

var _ plan.Evictor = Evictor{}

func (e Evictor) Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pod, err := e.Client.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

func (e Evictor) Evict(ctx context.Context, pod types.NamespacedName, uid types.UID, dryRun bool) (refusal string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := e.Client.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		})
	if dryRun {
		// EvictV1 has no CreateOptions. Without them, webhooks take a dry run for an eviction.
		request.VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, scheme.ParameterCodec)
	}
	err = request.Do(ctx).Error()
	if apierrors.IsTooManyRequests(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return cmp.Or(err.Error(), "the eviction was refused"), nil
	}
	return "", err
}

// StateLabel is the label of the state's ConfigMap.
const StateLabel = "app.kubernetes.io/component=rebalancer-state"

// BindingLabel is the label of the rebalancer's ClusterRoleBinding. Its service account has the namespace and name of the state.
const BindingLabel = "app.kubernetes.io/component=rebalancer"

// StateFlag is the rebalancer's flag that names the state, as NAMESPACE/NAME. DefaultState is its default.
const (
	StateFlag    = "state"
	DefaultState = "plimsoll-system/plimsoll-rebalancer"
)

// ParseState returns the name of the state's ConfigMap, which is that of the rebalancer's Lease too.
func ParseState(value string) (types.NamespacedName, error) {
	state, err := text.ParseName(value, "a ConfigMap")
	if err != nil {
		return state, fmt.Errorf("--%s: %w", StateFlag, err)
	}
	return state, nil
}

// stateKey is the key of the state in the ConfigMap.
const stateKey = "state.json"

// Store keeps the state in a ConfigMap that exists. Without a name, the state is empty. Use it by one goroutine at a time.
type Store struct {
	Client          kubernetes.Interface
	Namespace, Name string

	held *corev1.ConfigMap
}

var _ plan.Store = &Store{}

func (s *Store) Load(ctx context.Context) (state []byte, paused bool, err error) {
	if s.Name == "" {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.held, err = s.Client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		s.held = nil
		return nil, false, err
	}
	return StateOf(s.held), s.held.Annotations[plan.PausedAnnotation] == "true", nil
}

// StateOf returns the state in the ConfigMap.
func StateOf(held *corev1.ConfigMap) []byte { return []byte(held.Data[stateKey]) }

// FindState returns the ConfigMap with the state of the cluster's rebalancer; nil if none is installed. It must have the namespace
// and name of a subject of a ClusterRoleBinding with BindingLabel. Everybody with a namespace can write a ConfigMap with that
// StateLabel.
func FindState(ctx context.Context, client kubernetes.Interface) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{LabelSelector: BindingLabel})
	if err != nil {
		return nil, err
	}
	label, err := labels.Parse(StateLabel)
	if err != nil {
		return nil, err
	}
	found := map[types.UID]*corev1.ConfigMap{}
	for i := range bindings.Items {
		for _, subject := range bindings.Items[i].Subjects {
			if subject.Kind != rbacv1.ServiceAccountKind {
				continue
			}
			held, err := client.CoreV1().ConfigMaps(subject.Namespace).Get(ctx, subject.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, err
			case label.Matches(labels.Set(held.Labels)):
				found[held.UID] = held
			}
		}
	}
	if len(found) > 1 {
		return nil, errors.New("several rebalancers are installed; uninstall all but one")
	}
	for _, held := range found {
		return held, nil
	}
	return nil, nil
}

// Origins returns the origins of pods that the cluster's rebalancer moved, by the UID of their replacements. There are none without
// permission to list ClusterRoleBindings and to get the ConfigMap.
func Origins(ctx context.Context, client kubernetes.Interface) (map[types.UID]*cluster.Origin, error) {
	held, err := FindState(ctx, client)
	if apierrors.IsForbidden(err) || err == nil && held == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read moved pods: %w", err)
	}
	state, err := plan.DecodeState(StateOf(held))
	if err != nil {
		return nil, err
	}
	origins := map[types.UID]*cluster.Origin{}
	for i := range state.Records {
		if r := &state.Records[i]; r.ReplacementUID != "" {
			origins[r.ReplacementUID] = &cluster.Origin{Pod: r.Pod, From: r.From, At: r.Began, Why: r.Why()}
		}
	}
	return origins, nil
}

// Save implements plan.Store. The API server refuses it if the ConfigMap has changed since Load, its annotations included.
func (s *Store) Save(ctx context.Context, state []byte) error {
	if s.held == nil {
		return errors.New("the state was not read")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	changed := s.held.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string]string{}
	}
	changed.Data[stateKey] = string(state)
	saved, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	s.held = saved
	return nil
}

// Lease is the scheduler's.
type Lease struct {
	Client          kubernetes.Interface
	Clock           clock.PassiveClock
	Namespace, Name string

	// renewed is the last renewal, and seen when this process saw it first. Clocks of machines may differ. polled is the last look.
	renewed      metav1.MicroTime
	seen, polled time.Time
}

// Down says why nothing holds the lease; empty if the scheduler runs. Use it by one goroutine at a time.
func (l *Lease) Down(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := l.Client.CoordinationV1().Leases(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("no scheduler leads yet: there is no Lease %s/%s", l.Namespace, l.Name), nil
	}
	if err != nil {
		return "", err
	}
	spec, now, last := lease.Spec, l.Clock.Now(), l.polled
	l.polled = now
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return fmt.Sprintf("no scheduler leads: the Lease %s/%s has no holder", l.Namespace, l.Name), nil
	}
	duration := time.Duration(*spec.LeaseDurationSeconds) * time.Second
	if !l.renewed.Equal(spec.RenewTime) {
		l.seen = now
		if now.Sub(last) > duration && spec.RenewTime.Time.Before(now) { // it may have been renewed long ago, and the scheduler died
			l.seen = spec.RenewTime.Time
		}
		l.renewed = *spec.RenewTime
	}
	if now.Sub(l.seen) > duration {
		return fmt.Sprintf("the scheduler is down: it last renewed the Lease %s/%s at %s", l.Namespace, l.Name,
			spec.RenewTime.UTC().Format(time.RFC3339)), nil
	}
	return "", nil
}
