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
func (s *examinedSource) adviseAddress(u *url.URL) []Advice {
	if u == nil || u.Host == "" {
		return []Advice{{Text: "Do what the message says. If the scheduler reaches the source and this machine does not, check from its pod:", Command: execCommand(s.configuration.Workload)}}
	}
	name, namespace, isService := serviceOf(u.Hostname())
	if !isService {
		probe := httpclient.WithoutSecrets(u)
		if s.Spec.WatcherAddress == "" && s.Spec.MetricProvider.Type == config.Prometheus {
			probe = httpclient.WithoutSecrets(u.JoinPath("api/v1/query")) + "?query=1"
		}
		return []Advice{{
			Text: fmt.Sprintf("Start the server at %s, or correct the address in %s. This shows whether it answers:", u.Host, s.configuration.Origin),
			// The address is quoted, for it may hold what a shell reads.
			Command: "curl -sS " + live.ShellQuote(probe),
		}}
	}
	if i := slices.IndexFunc(s.objects.services, func(v *corev1.Service) bool { return v.Namespace == namespace && v.Name == name }); i >= 0 {
		return s.adviseService(s.objects.services[i], u)
	}
	var advice []Advice
	for _, v := range s.similarServices(name, namespace) {
		other := *u
		other.Host = fmt.Sprintf("%s.%s.svc", v.Name, v.Namespace)
		if port := portLike(v, u.Port()); port != "" {
			other.Host = net.JoinHostPort(other.Host, port)
		}
		advice = append(advice, Advice{
			Text: fmt.Sprintf("There is no Service %s/%s. %s name Service %s/%s, if that is the one:", namespace, name, s.inConfiguration(), v.Namespace, v.Name),
			YAML: s.addressYAML(httpclient.WithoutSecrets(&other)),
		})
	}
	if len(advice) == 0 {
		advice = append(advice, Advice{Text: fmt.Sprintf("There is no Service %s/%s, nor one that looks like it. Look for it:", namespace, name), Command: "kubectl get services -A"})
	}
	return advice
}

// adviseService says what could be wrong with a Service that exists.
func (s *examinedSource) adviseService(v *corev1.Service, u *url.URL) []Advice {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if !slices.ContainsFunc(v.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == port }) {
		if other := portLike(v, port); other != "" {
			changed := *u
			changed.Host = net.JoinHostPort(u.Hostname(), other)
			return []Advice{{
				Text: fmt.Sprintf("Service %s/%s has no port %s. %s write:", v.Namespace, v.Name, port, s.inConfiguration()),
				YAML: s.addressYAML(httpclient.WithoutSecrets(&changed)),
			}}
		}
	}
	selector := labels.SelectorFromSet(v.Spec.Selector)
	ready := 0
	for _, pod := range s.objects.pods {
		if len(v.Spec.Selector) > 0 && pod.Namespace == v.Namespace && selector.Matches(labels.Set(pod.Labels)) && podReady(pod) {
			ready++
		}
	}
	if len(v.Spec.Selector) > 0 && ready == 0 {
		return []Advice{{
			Text:    fmt.Sprintf("No ready pod is behind Service %s/%s. This shows why:", v.Namespace, v.Name),
			Command: fmt.Sprintf("kubectl -n %s describe pods -l %s", live.ShellQuote(v.Namespace), live.ShellQuote(selector.String())),
		}}
	}
	return []Advice{{
		Text: fmt.Sprintf("Service %s/%s has %s. A NetworkPolicy may keep the scheduler from it:", v.Namespace, v.Name, text.Count(ready, "ready pod")),
		Command: fmt.Sprintf("kubectl -n %s get endpointslices -l %s; kubectl get networkpolicies -A",
			live.ShellQuote(v.Namespace), live.ShellQuote("kubernetes.io/service-name="+v.Name)),
	}}
}

// serviceOf returns the Service that a host name is of.
func serviceOf(host string) (name, namespace string, ok bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// similarServices returns a few Services that may be meant, the likeliest first.
func (s *examinedSource) similarServices(name, namespace string) []*corev1.Service {
	type rated struct {
		service *corev1.Service
		rate    int
	}
	var all []rated
	for _, v := range s.objects.services {
		rate := 0
		switch {
		case v.Name == name:
			rate = 4
		case len(configlint.SimilarNames(name, []string{v.Name})) > 0:
			rate = 3
		case strings.Contains(v.Name, name) || strings.Contains(name, v.Name):
			rate = 2
		case slices.ContainsFunc(servers(), func(server string) bool { return strings.Contains(v.Name, server) && strings.Contains(name, server) }):
			rate = 1
		default:
			continue
		}
		if v.Namespace == namespace {
			rate += 2
		}
		all = append(all, rated{v, rate})
	}
	slices.SortStableFunc(all, func(a, b rated) int { return b.rate - a.rate })
	const most = 3
	var found []*corev1.Service
	for _, r := range all[:min(most, len(all))] {
		found = append(found, r.service)
	}
	return found
}

// servers are parts of names by which sources of load are known.
func servers() []string {
	return []string{"prometheus", "thanos", "mimir", "victoria", "vmselect", "load-watcher"}
}

// portLike returns the Service's port that is meant: the given one, the one named for the web, or the first.
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

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
