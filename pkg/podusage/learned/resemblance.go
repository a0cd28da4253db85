package learned

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Labels of an application, as Kubernetes and Helm recommend them.
const (
	AppLabel       = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
	chartLabel     = "helm.sh/chart"
)

// defaultContainer is the annotation that names the container which kubectl takes by default.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// resemblance is a property that pods of different workloads share.
type resemblance int

// From the weakest to the strongest.
const (
	byClass resemblance = iota // owner's kind, priority class, and powers of two of the requests
	byContainer
	byApp
	byImage
	resemblances
)

// likeness holds hashes of a pod's properties, by resemblance. 0 is nothing.
type likeness struct {
	namespace uint64
	names     [resemblances]uint64
}

// within is the hash of a name in the likeness's namespace. Both are hashes that nobody can choose.
func (l *likeness) within(name uint64) uint64 { return l.namespace ^ name }

// likenessOf does not allocate.
func likenessOf(k key, pod *corev1.Pod) (l likeness) {
	l.namespace = k.hash(pod.Namespace)
	for by := range resemblances {
		message := append(append(make([]byte, 0, messageRoom), k[:]...), byte(by))
		if by.each(pod, func(name string) { message = appendName(message, name) }) {
			l.names[by] = max(sum(message), 1)
		}
	}
	return l
}

// each visits the names of the pod's property. It returns false if the pod has none.
func (by resemblance) each(pod *corev1.Pod, visit func(name string)) bool {
	switch by {
	case byClass:
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			visit(owner.Kind)
		}
		visit(pod.Spec.PriorityClassName)
		for r := range load.ResourceCount {
			visit(strconv.Itoa(requestClass(podusage.Request(pod, r)))) // below 100: it does not allocate
		}
		return true
	case byApp:
		name := cmp.Or(pod.Labels[AppLabel], chartName(pod.Labels[chartLabel]))
		visit(name)
		visit(pod.Labels[componentLabel])
		return name != ""
	}
	c := mainContainer(pod)
	if c == nil {
		return false
	}
	if by == byImage {
		visit(repository(c.Image))
	} else {
		visit(c.Name)
	}
	return true
}

// mainContainer is the container that kubectl takes by default, or nil. Injected sidecars do not change it.
func mainContainer(pod *corev1.Pod) *corev1.Container {
	name := pod.Annotations[defaultContainer]
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			return c
		}
	}
	if len(pod.Spec.Containers) == 0 {
		return nil
	}
	return &pod.Spec.Containers[0]
}

// chartName returns the value of chartLabel without the version, such as shop of shop-1.4.0.
func chartName(label string) string {
	for i := range len(label) {
		major, _, versioned := strings.Cut(strings.TrimPrefix(label[i+1:], "v"), ".")
		if label[i] == '-' && versioned && major != "" && strings.Trim(major, "0123456789") == "" {
			return label[:i]
		}
	}
	return label
}

// requestClass is the power of two of an amount; 0 for nothing.
func requestClass(amount float64) int {
	if amount < 1 {
		return 0
	}
	return 1 + math.Ilogb(amount)
}

// repository returns the image without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		return image[:colon]
	}
	return image
}

// joined returns the names of the pod's property, each with a comma behind it.
func (by resemblance) joined(pod *corev1.Pod) string {
	var names strings.Builder
	by.each(pod, func(name string) { names.WriteString(name + ",") })
	return names.String()
}

// describe names the property, such as "image shop/api".
func (by resemblance) describe(pod *corev1.Pod) string {
	if by == byClass {
		return "similar requests"
	}
	kind := map[resemblance]string{byContainer: "container ", byApp: "application ", byImage: "image "}[by]
	return kind + text.Excerpt(strings.Trim(by.joined(pod), ","))
}
