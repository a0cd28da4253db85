package manifests_test

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestChartDefaults(t *testing.T) {
	scheduler := func(t *testing.T, objects []*unstructured.Unstructured) appsv1.DeploymentSpec {
		t.Helper()
		for _, d := range find[appsv1.Deployment](t, objects, "Deployment") {
			if d.Name == "plimsoll" {
				return d.Spec
			}
		}
		t.Fatal("there is no Deployment named plimsoll")
		return appsv1.DeploymentSpec{}
	}
	expect := func(name, values string, want []string, got func(*testing.T, objectList) []string) {
		t.Run(name, func(t *testing.T) { check.Equal(t, "objects", want, got(t, render(t, values))) })
	}
	expect("the scheduler has a high priority class", "",
		[]string{"system-cluster-critical"}, func(t *testing.T, objects objectList) []string {
			return []string{scheduler(t, objects).Template.Spec.PriorityClassName}
		})
	expect("replicas are spread over nodes and zones", "", []string{
		"kubernetes.io/hostname 1 ScheduleAnyway [pod-template-hash]",
		"topology.kubernetes.io/zone 1 ScheduleAnyway [pod-template-hash]",
	}, func(t *testing.T, objects objectList) (got []string) {
		for _, c := range scheduler(t, objects).Template.Spec.TopologySpreadConstraints {
			got = append(got, fmt.Sprint(c.TopologyKey, " ", c.MaxSkew, " ", c.WhenUnsatisfiable, " ", c.MatchLabelKeys))
		}
		return got
	})
	expect("probes use the secure port", "",
		[]string{"https 10259", "HTTPS https /livez", "HTTPS https /livez", "HTTPS https /readyz"},
		func(t *testing.T, objects objectList) (got []string) {
			c := scheduler(t, objects).Template.Spec.Containers[0]
			got = append(got, fmt.Sprint(c.Ports[0].Name, " ", c.Ports[0].ContainerPort))
			for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				got = append(got, fmt.Sprint(p.HTTPGet.Scheme, " ", p.HTTPGet.Port.String(), " ", p.HTTPGet.Path))
			}
			return got
		})
	expect("one replica may be evicted at a time", "", []string{"1", "AlwaysAllow"}, func(t *testing.T, objects objectList) []string {
		spec := one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec
		return []string{spec.MaxUnavailable.String(), string(*spec.UnhealthyPodEvictionPolicy)}
	})
	expect("a new replica is ready before an old one goes", "",
		[]string{"2", "1", "0"}, func(t *testing.T, objects objectList) []string {
			spec := scheduler(t, objects)
			r := spec.Strategy.RollingUpdate
			return []string{fmt.Sprint(*spec.Replicas), r.MaxSurge.String(), r.MaxUnavailable.String()}
		})
	expect("without leader election the old replica ends before the new one starts",
		"{replicas: 1, config: {leaderElection: {leaderElect: false}}}",
		[]string{"Recreate", "true"}, func(t *testing.T, objects objectList) []string {
			strategy := scheduler(t, objects).Strategy
			return []string{string(strategy.Type), fmt.Sprint(strategy.RollingUpdate == nil)}
		})
	expect("in the host's network a new replica takes the port of an old one",
		"{hostNetwork: true, port: 10260}",
		[]string{"true ClusterFirstWithHostNet", "--secure-port=10260", "10260", "0", "1", "https", "POD_NAME metadata.name"},
		func(t *testing.T, objects objectList) []string {
			spec := scheduler(t, objects)
			pod, r := spec.Template.Spec, spec.Strategy.RollingUpdate
			c := pod.Containers[0]
			return []string{
				fmt.Sprint(pod.HostNetwork, " ", pod.DNSPolicy), c.Command[len(c.Command)-1], fmt.Sprint(c.Ports[0].ContainerPort),
				r.MaxSurge.String(), r.MaxUnavailable.String(), one[corev1.Service](t, objects, "Service").Spec.Ports[0].TargetPort.String(),
				fmt.Sprint(c.Env[0].Name, " ", c.Env[0].ValueFrom.FieldRef.FieldPath),
			}
		})
	expect("the pod is as Kubernetes makes it by default", "",
		[]string{`false "" true []`}, func(t *testing.T, objects objectList) []string {
			pod := scheduler(t, objects).Template.Spec
			return []string{
				fmt.Sprintf("%v %q %v %v", pod.HostNetwork, pod.DNSPolicy, pod.TerminationGracePeriodSeconds == nil, pod.ImagePullSecrets),
			}
		})
	expect("settings of the pod",
		"{dnsPolicy: Default, terminationGracePeriodSeconds: 0, imagePullSecrets: [{name: registry}], existingConfigMap: own}",
		[]string{"Default", "0", "registry", "own"}, func(t *testing.T, objects objectList) []string {
			pod := scheduler(t, objects).Template.Spec
			return []string{
				string(pod.DNSPolicy), fmt.Sprint(*pod.TerminationGracePeriodSeconds), pod.ImagePullSecrets[0].Name,
				pod.Volumes[0].ConfigMap.Name,
			}
		})
	expect("more volumes",
		"{extraVolumes: [{name: models, configMap: {name: m}}], extraVolumeMounts: [{name: models, mountPath: /models, readOnly: true}]}",
		[]string{"models", "m", "models", "/models", "true"}, func(t *testing.T, objects objectList) []string {
			pod := scheduler(t, objects).Template.Spec
			volume, mount := pod.Volumes[len(pod.Volumes)-1], pod.Containers[0].VolumeMounts[len(pod.Volumes)-1]
			return []string{volume.Name, volume.ConfigMap.Name, mount.Name, mount.MountPath, fmt.Sprint(mount.ReadOnly)}
		})
	expect("minAvailable takes the place of maxUnavailable", "{replicas: 3, podDisruptionBudget: {minAvailable: 2}}",
		[]string{"2", "<nil>"}, func(t *testing.T, objects objectList) []string {
			spec := one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec
			return []string{spec.MinAvailable.String(), fmt.Sprint(spec.MaxUnavailable)}
		})
	expect("half of the replicas may be evicted", "podDisruptionBudget: {minAvailable: 50%}",
		[]string{"50%"}, func(t *testing.T, objects objectList) []string {
			return []string{one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec.MinAvailable.String()}
		})
	expect("without a budget, minAvailable has no effect", "podDisruptionBudget: {enabled: false, minAvailable: 2}",
		[]string{"0"}, func(t *testing.T, objects objectList) []string {
			return []string{fmt.Sprint(len(find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")))}
		})
	expect("with OpenShift's operator, minAvailable has no effect", "{target: OpenShift, podDisruptionBudget: {minAvailable: 2}}",
		[]string{"0"}, func(t *testing.T, objects objectList) []string {
			return []string{fmt.Sprint(len(find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")))}
		})
	expect("the operator reads a ConfigMap of one's own", "{target: OpenShift, existingConfigMap: own}",
		[]string{"own", "<nil>"}, func(t *testing.T, objects objectList) []string {
			name, _, err := unstructured.NestedString((*one[map[string]any](t, objects, "SecondaryScheduler")), "spec", "schedulerConfig")
			return []string{name, fmt.Sprint(err)}
		})
	expect("the operator's log level and topology",
		"{target: OpenShift, openshift: {logLevel: Debug, topology: {mode: HighlyAvailable, highlyAvailableTopology: {maxReplicas: 2}}}}",
		[]string{
			"map[logLevel:Debug managementState:Managed schedulerConfig:plimsoll schedulerImage:" + image + " topology:map[highlyAvailableTopology:map[maxReplicas:2] mode:HighlyAvailable]]",
		}, func(t *testing.T, objects objectList) []string {
			return []string{fmt.Sprint((*one[map[string]any](t, objects, "SecondaryScheduler"))["spec"])}
		})
	expect("helm test places a pod by each profile", "config: {profiles: [{schedulerName: a}, {schedulerName: b}]}", []string{
		"plimsoll-test-0 test a [/bin/kube-scheduler --version]", "plimsoll-test-1 test b [/bin/kube-scheduler --version]",
	}, func(t *testing.T, objects objectList) (got []string) {
		for _, p := range find[corev1.Pod](t, objects, "Pod") {
			got = append(got,
				fmt.Sprint(p.Name, " ", p.Annotations["helm.sh/hook"], " ", p.Spec.SchedulerName, " ", p.Spec.Containers[0].Command))
		}
		return got
	})
	expect("the pod of helm test runs where the scheduler runs, and is deleted in any case",
		"{imagePullSecrets: [{name: registry}], nodeSelector: {a: b}, tolerations: [{key: c, operator: Exists}]}",
		[]string{"registry map[a:b kubernetes.io/os:linux] c", "before-hook-creation,hook-succeeded,hook-failed"},
		func(t *testing.T, objects objectList) []string {
			p := one[corev1.Pod](t, objects, "Pod")
			return []string{
				fmt.Sprint(p.Spec.ImagePullSecrets[0].Name, " ", p.Spec.NodeSelector, " ", p.Spec.Tolerations[0].Key),
				p.Annotations["helm.sh/hook-delete-policy"],
			}
		})
	expect("the service monitor verifies the certificate before it sends a token",
		"{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate}}",
		[]string{
			"--tls-cert-file=/etc/plimsoll/tls/tls.crt", "--tls-private-key-file=/etc/plimsoll/tls/tls.key",
			"map[ca:map[secret:map[key:ca.crt name:certificate]] serverName:plimsoll.plimsoll-system.svc]",
		}, func(t *testing.T, objects objectList) []string {
			command := scheduler(t, objects).Template.Spec.Containers[0].Command
			return append(command[len(command)-2:], tlsConfig(t, objects)...)
		})
	expect(
		"the certificate has another name, and its authority another key",
		"{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate, serverName: scheduler.example.com, caKey: authority.pem}}",
		[]string{"map[ca:map[secret:map[key:authority.pem name:certificate]] serverName:scheduler.example.com]"}, tlsConfig,
	)
	expect("the certificate is of an authority that Prometheus trusts",
		`{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate, caKey: ""}}`,
		[]string{"map[serverName:plimsoll.plimsoll-system.svc]"}, tlsConfig)
	expect("the service monitor does not verify the certificate",
		"{serviceMonitor: {enabled: true, insecureSkipVerify: true}, servingCertificate: {secretName: certificate}}",
		[]string{"map[insecureSkipVerify:true]"}, tlsConfig)
	expect("everyone may reach the ports of metrics and load, and no other", "", []string{
		"[Ingress Egress]", "ingress TCP 10259", "ingress TCP 10269", "egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353",
		"egress TCP all",
	}, traffic)
	expect("the network policy opens the port of metrics", "port: 10300", []string{
		"[Ingress Egress]", "ingress TCP 10300", "ingress TCP 10269", "egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353",
		"egress TCP all",
	}, traffic)
	expect("metricsFrom and apiServer narrow the network policy", `
networkPolicy:
  apiServer: {cidrs: [10.0.0.1/32, 10.0.0.2/32], ports: [6443]}
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
`, []string{
		"[Ingress Egress]", "ingress TCP 10259 namespace monitoring", "ingress TCP 10269", "egress UDP 53", "egress TCP 53", "egress UDP 5353",
		"egress TCP 5353", "egress TCP 6443 10.0.0.1/32 10.0.0.2/32", "egress TCP 10269",
	}, traffic)
	expect("the admission policy never refuses a pod", "admissionPolicy: {enabled: true}",
		[]string{"Ignore", "Never"}, func(t *testing.T, objects objectList) []string {
			p := one[admissionregistrationv1.MutatingAdmissionPolicy](t, objects, "MutatingAdmissionPolicy").Spec
			return []string{string(*p.FailurePolicy), string(p.ReinvocationPolicy)}
		})
	expect("the load-watcher listens at the port of its service",
		"loadWatcher: {enabled: true}",
		[]string{"plimsoll-load-watcher 2020 http", "plimsoll 10259 https", "https 10259", "load 10269", "http 2020"},
		func(t *testing.T, objects objectList) (got []string) {
			for _, s := range find[corev1.Service](t, objects, "Service") {
				for _, p := range s.Spec.Ports {
					got = append(got, fmt.Sprint(s.Name, " ", p.Port, " ", p.TargetPort.String()))
				}
			}
			for _, d := range find[appsv1.Deployment](t, objects, "Deployment") {
				for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
					got = append(got, fmt.Sprint(p.Name, " ", p.ContainerPort))
				}
			}
			return got
		})
	expect("every pod may read the load-watcher", "{loadWatcher: {enabled: true}, networkPolicy: {apiServer: {ports: [6443]}}}",
		[]string{
			"[Ingress Egress]", "ingress TCP 2020", "egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353",
			"egress TCP 6443",
		}, loadWatcherTraffic)
	expect("clients restricts the readers of the load-watcher", `
networkPolicy: {apiServer: {ports: [6443]}}
loadWatcher: {enabled: true, clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: schedulers}}}]}
`, []string{
		"[Ingress Egress]", "ingress TCP 2020 namespace schedulers",
		"egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353", "egress TCP 6443",
	}, loadWatcherTraffic)
}

// tlsConfig returns how the only ServiceMonitor verifies the scheduler.
func tlsConfig(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	endpoints, _, err := unstructured.NestedSlice(*one[map[string]any](t, objects, "ServiceMonitor"), "spec", "endpoints")
	check.OK(t, err)
	return []string{fmt.Sprint(endpoints[0].(map[string]any)["tlsConfig"])}
}

// traffic returns the policy types of the only NetworkPolicy, and what it allows: direction, protocol, port and peers.
func traffic(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	return allowed(one[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy").Spec)
}

func loadWatcherTraffic(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	for _, p := range find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy") {
		if p.Name == "plimsoll-load-watcher" {
			return allowed(p.Spec)
		}
	}
	t.Fatal("the load-watcher has no NetworkPolicy")
	return nil
}

func allowed(spec networkingv1.NetworkPolicySpec) (allowed []string) {
	add := func(direction string, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer) {
		var to string
		for _, p := range peers {
			if p.IPBlock != nil {
				to += " " + p.IPBlock.CIDR
			}
			if p.NamespaceSelector != nil {
				to += " namespace " + p.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
			}
		}
		for _, p := range ports {
			port := "all"
			if p.Port != nil {
				port = p.Port.String()
			}
			allowed = append(allowed, fmt.Sprint(direction, " ", *p.Protocol, " ", port, to))
		}
	}
	allowed = append(allowed, fmt.Sprint(spec.PolicyTypes))
	for _, rule := range spec.Ingress {
		add("ingress", rule.Ports, rule.From)
	}
	for _, rule := range spec.Egress {
		add("egress", rule.Ports, rule.To)
	}
	return allowed
}
