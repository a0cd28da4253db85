package doctor

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// adviseAddress says what could be wrong with the address of a source that is not reached.
func (s *sourceFacts) adviseAddress() []Advice {
	u := s.url()
	if u.Host == "" {
		return s.adviseMessage()
	}
	namespace, name, isService := live.ServiceOf(u.Hostname())
	if !isService {
		probe := httpclient.WithoutSecrets(u)
		if s.Spec.WatcherAddress == "" && s.Spec.MetricProvider.Type == config.Prometheus {
			probe = httpclient.WithoutSecrets(u.JoinPath("api/v1/query")) + "?query=1"
		}
		return run("curl -sS "+live.ShellQuote(probe), "Start the server at %s, or correct the address in %s. See whether it answers:",
			u.Host, s.configuration.Origin)
	}
	if v := s.objects.service(namespace, name); v != nil {
		return s.adviseService(v, u)
	}
	var advice []Advice
	for _, v := range s.objects.similarServices(namespace, name) {
		advice = append(advice, write(s.addressYAML(withHost(u, v.Name+"."+v.Namespace+".svc", portLike(v, u.Port()))),
			"There is no Service %s/%s. %s name Service %s/%s, if that is the one:", namespace, name, s.inConfiguration(), v.Namespace,
			v.Name)...)
	}
	if len(advice) == 0 {
		return run("kubectl get services -A", "There is no Service %s/%s, nor one with a similar name. Look for it:", namespace, name)
	}
	return advice
}

// withHost returns the URL with another host and port, without secrets.
func withHost(u *url.URL, host, port string) string {
	other := *u
	if other.Host = host; port != "" {
		other.Host = net.JoinHostPort(host, port)
	}
	return httpclient.WithoutSecrets(&other)
}

// adviseService says what could be wrong with a Service that exists.
func (s *sourceFacts) adviseService(v *corev1.Service, u *url.URL) []Advice {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if other := portLike(v, port); other != "" && other != port {
		return write(s.addressYAML(withHost(u, u.Hostname(), other)), "Service %s/%s has no port %s. %s write:", v.Namespace, v.Name,
			port, s.inConfiguration())
	}
	ready := 0
	for _, pod := range s.objects.podsOf(v) {
		if podReady(pod) {
			ready++
		}
	}
	if len(v.Spec.Selector) > 0 && ready == 0 {
		selector := labels.SelectorFromSet(v.Spec.Selector).String()
		return run(fmt.Sprintf("kubectl -n %s describe pods -l %s", live.ShellQuote(v.Namespace), live.ShellQuote(selector)),
			"No ready pod is behind Service %s/%s. See why:", v.Namespace, v.Name)
	}
	return run(
		fmt.Sprintf("kubectl -n %s get endpointslices -l %s; kubectl get networkpolicies -A",
			live.ShellQuote(v.Namespace), live.ShellQuote("kubernetes.io/service-name="+v.Name)),
		"Service %s/%s has %s. Look for a NetworkPolicy that denies the scheduler access:",
		v.Namespace,
		v.Name,
		text.Count(ready, "ready pod"),
	)
}

// service returns the Service of that name, or nil.
func (o *objects) service(namespace, name string) *corev1.Service {
	i := slices.IndexFunc(o.services, func(v *corev1.Service) bool { return v.Namespace == namespace && v.Name == name })
	if i < 0 {
		return nil
	}
	return o.services[i]
}

// podsOf returns the pods that a Service selects.
func (o *objects) podsOf(v *corev1.Service) []*corev1.Pod {
	var pods []*corev1.Pod
	selector := labels.SelectorFromSet(v.Spec.Selector)
	for _, pod := range o.pods {
		if len(v.Spec.Selector) > 0 && pod.Namespace == v.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// similarServices returns up to three Services that may be meant, the likeliest first.
func (o *objects) similarServices(namespace, name string) []*corev1.Service {
	servers := []string{"prometheus", "thanos", "mimir", "victoria", "vmselect", "load-watcher"}
	rating := func(v *corev1.Service) int {
		rate := 0
		switch {
		case v.Name == name:
			rate = 4
		case len(configlint.SimilarNames(name, []string{v.Name})) > 0:
			rate = 3
		case strings.Contains(v.Name, name) || strings.Contains(name, v.Name):
			rate = 2
		case slices.ContainsFunc(servers, func(s string) bool { return strings.Contains(v.Name, s) && strings.Contains(name, s) }):
			rate = 1
		}
		if rate > 0 && v.Namespace == namespace {
			rate += 2
		}
		return rate
	}
	similar := slices.DeleteFunc(slices.Clone(o.services), func(v *corev1.Service) bool { return rating(v) == 0 })
	slices.SortStableFunc(similar, func(a, b *corev1.Service) int { return rating(b) - rating(a) })
	return similar[:min(3, len(similar))]
}

// portLike returns the Service's likeliest port: the same number, one named for the web, or the first.
func portLike(v *corev1.Service, port string) string {
	best := ""
	for _, p := range v.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		if number == port {
			return number
		}
		if best == "" || strings.Contains(p.Name, "web") || strings.Contains(p.Name, "http") {
			best = number
		}
	}
	return best
}
