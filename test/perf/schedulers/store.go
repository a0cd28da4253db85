package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"
)

// store writes objects into etcd, in the form in which the API server keeps them. So thousands of pods arrive at once, and the API
// server has only the work that the scheduler causes.
type store struct {
	etcd  *clientv3.Client
	codec runtime.Serializer
}

// The prefixes of keys. Pods of a workload that the schedulers find are in another namespace than the measured ones.
const (
	nodesPrefix       = "/registry/minions/"
	podsPrefix        = "/registry/pods/"
	replicaSetsPrefix = "/registry/replicasets/"
	eventsPrefix      = "/registry/events/"

	foundNamespace    = "found"
	measuredNamespace = "measured"
)

func newStore(endpoint string) (*store, error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return &store{etcd: etcd, codec: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)}, nil
}

func (s *store) close() { _ = s.etcd.Close() }

// put writes the objects, each in a revision of its own, as the API server does. Its watchers lose events that share a revision.
func (s *store) put(ctx context.Context, objects []keyed) error {
	return s.each(ctx, objects, func(ctx context.Context, o keyed) error {
		data, err := runtime.Encode(s.codec, o.object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", o.key, err)
		}
		if _, err := s.etcd.Put(ctx, o.key, string(data)); err != nil {
			return fmt.Errorf("writing %s to etcd: %w", o.key, err)
		}
		return nil
	})
}

// remove removes the objects, each in a revision of its own.
func (s *store) remove(ctx context.Context, objects []keyed) error {
	return s.each(ctx, objects, func(ctx context.Context, o keyed) error {
		if _, err := s.etcd.Delete(ctx, o.key); err != nil {
			return fmt.Errorf("removing %s from etcd: %w", o.key, err)
		}
		return nil
	})
}

func (s *store) each(ctx context.Context, objects []keyed, do func(context.Context, keyed) error) error {
	const parallel = 16
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, o := range objects {
		group.Go(func() error { return do(ctx, o) })
	}
	return group.Wait()
}

// removeEvents removes the events about measured pods, which nothing watches.
func (s *store) removeEvents(ctx context.Context) error {
	if _, err := s.etcd.Delete(ctx, eventsPrefix+measuredNamespace+"/", clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("removing events from etcd: %w", err)
	}
	return nil
}

type keyed struct {
	key    string
	object runtime.Object
}

func podKey(pod *corev1.Pod) string { return podsPrefix + pod.Namespace + "/" + pod.Name }

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// newNode is a node of 16 cores and 64 GiB, in one of three zones.
func newNode(i int) keyed {
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("250"),
	}
	name := nodeName(i)
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-" + strconv.Itoa(i%3), corev1.LabelOSStable: "linux",
			},
		},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	return keyed{nodesPrefix + name, node}
}

// templateHash is that of each ReplicaSet.
const templateHash = "6d5f8c7b9d"

// replicas is the number of pods of one workload.
const replicas = 10

func workloadName(number int) string { return fmt.Sprintf("workload-%05d", number/replicas) }

func replicaSetName(number int) string { return workloadName(number) + "-" + templateHash }

func podName(number int) string { return fmt.Sprintf("%s-%05d", replicaSetName(number), number) }

// labelsOf are the labels of a workload's pods, and what its ReplicaSet selects them by.
func labelsOf(number int) map[string]string {
	return map[string]string{"app": replicaSetName(number), appsv1.DefaultDeploymentUniqueLabelKey: templateHash}
}

// newReplicaSet is the ReplicaSet of a measured pod. Without it the stock scheduler does not spread the pod.
func newReplicaSet(number int) keyed {
	name, labels := replicaSetName(number), labelsOf(number)
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: measuredNamespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(), Labels: labels,
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	return keyed{replicaSetsPrefix + measuredNamespace + "/" + name, set}
}

// newPod is a pod of a workload. Without a ReplicaSet it is bare.
func newPod(namespace, scheduler string, number int, owned bool) *corev1.Pod {
	workload := replicaSetName(number)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: podName(number), UID: uuid.NewUUID(), CreationTimestamp: metav1.Now(),
			Labels: labelsOf(number),
		},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.k8s.io/pause:3.10", ImagePullPolicy: corev1.PullIfNotPresent,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("200Mi"),
				}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if owned {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload, UID: types.UID(workload), Controller: ptr.To(true),
		}}
	}
	corev1defaults.SetObjectDefaults_Pod(pod)
	return pod
}

// spreadStrictly makes the pod spread over zones and hosts, at most one pod more in each than in any other.
func spreadStrictly(pod *corev1.Pod) {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		})
	}
}

// keepApart gives the pod an anti-affinity to the pods of its workload, if it is one of a third.
func (w workload) keepApart(pod *corev1.Pod, number int) {
	if w.apart && number/replicas%3 == 0 {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			}},
		}}
	}
}

// runningPod is a pod that has run on a node for an hour.
func runningPod(i int, w workload) keyed {
	pod := newPod(foundNamespace, corev1.DefaultSchedulerName, i, true)
	w.keepApart(pod, i)
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	pod.Spec.NodeName = nodeName(i % w.nodes)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}},
	}
	return keyed{podKey(pod), pod}
}

// bound returns a channel that gets the time when the scheduler has bound n of the measured pods. It ends with ctx.
func (s *store) bound(ctx context.Context, scheduler string, n int) <-chan time.Time {
	done := make(chan time.Time, 1)
	watched := s.etcd.Watch(ctx, podsPrefix+measuredNamespace+"/", clientv3.WithPrefix())
	go func() {
		seen := map[string]bool{}
		for response := range watched {
			for _, event := range response.Events {
				if event.Type != clientv3.EventTypePut || seen[string(event.Kv.Key)] {
					continue
				}
				object, err := runtime.Decode(s.codec, event.Kv.Value)
				if pod, ok := object.(*corev1.Pod); err == nil && ok && pod.Spec.SchedulerName == scheduler && pod.Spec.NodeName != "" {
					seen[string(event.Kv.Key)] = true
				}
			}
			if len(seen) == n {
				done <- time.Now()
				return
			}
		}
	}()
	return done
}
