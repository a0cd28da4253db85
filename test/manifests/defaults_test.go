package manifests_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	tests := []struct {
		name, values string
		got          func(*testing.T, []*unstructured.Unstructured) []string
		want         []string
	}{
		{
			name: "the scheduler has a high priority class",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				return []string{scheduler(t, objects).Template.Spec.PriorityClassName}
			},
			want: []string{"system-cluster-critical"},
		},
		{
			name: "replicas are spread over nodes and zones",
			got: func(t *testing.T, objects []*unstructured.Unstructured) (got []string) {
				for _, c := range scheduler(t, objects).Template.Spec.TopologySpreadConstraints {
					got = append(got, fmt.Sprint(c.TopologyKey, " ", c.MaxSkew, " ", c.WhenUnsatisfiable, " ", c.MatchLabelKeys))
				}
				return got
			},
			want: []string{
				"kubernetes.io/hostname 1 ScheduleAnyway [pod-template-hash]",
				"topology.kubernetes.io/zone 1 ScheduleAnyway [pod-template-hash]",
			},
		},
		{
			name: "probes use the secure port",
			got: func(t *testing.T, objects []*unstructured.Unstructured) (got []string) {
				c := scheduler(t, objects).Template.Spec.Containers[0]
				got = append(got, fmt.Sprint(c.Ports[0].Name, " ", c.Ports[0].ContainerPort))
				for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
					got = append(got, fmt.Sprint(p.HTTPGet.Scheme, " ", p.HTTPGet.Port.String(), " ", p.HTTPGet.Path))
				}
				return got
			},
			want: []string{"https 10259", "HTTPS https /livez", "HTTPS https /livez", "HTTPS https /readyz"},
		},
		{
			name: "one replica may be evicted at a time",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				spec := one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec
				return []string{spec.MaxUnavailable.String(), string(*spec.UnhealthyPodEvictionPolicy)}
			},
			want: []string{"1", "AlwaysAllow"},
		},
		{
			name: "a new replica is ready before an old one goes",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				spec := scheduler(t, objects)
				r := spec.Strategy.RollingUpdate
				return []string{fmt.Sprint(*spec.Replicas), r.MaxSurge.String(), r.MaxUnavailable.String()}
			},
			want: []string{"2", "1", "0"},
		},
		{
			name:   "without leader election the old replica ends before the new one starts",
			values: "{replicas: 1, config: {leaderElection: {leaderElect: false}}}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				strategy := scheduler(t, objects).Strategy
				return []string{string(strategy.Type), fmt.Sprint(strategy.RollingUpdate == nil)}
			},
			want: []string{"Recreate", "true"},
		},
		{
			name: "in the host's network a new replica takes the port of an old one", values: "{hostNetwork: true, port: 10260}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				spec := scheduler(t, objects)
				pod, r := spec.Template.Spec, spec.Strategy.RollingUpdate
				c := pod.Containers[0]
				return []string{
					fmt.Sprint(pod.HostNetwork, " ", pod.DNSPolicy), c.Command[len(c.Command)-1], fmt.Sprint(c.Ports[0].ContainerPort),
					r.MaxSurge.String(), r.MaxUnavailable.String(), one[corev1.Service](t, objects, "Service").Spec.Ports[0].TargetPort.String(),
				}
			},
			want: []string{"true ClusterFirstWithHostNet", "--secure-port=10260", "10260", "0", "1", "https"},
		},
		{
			name: "the pod is as Kubernetes makes it by default",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				pod := scheduler(t, objects).Template.Spec
				return []string{
					fmt.Sprintf("%v %q %v %v", pod.HostNetwork, pod.DNSPolicy, pod.TerminationGracePeriodSeconds == nil, pod.ImagePullSecrets),
				}
			},
			want: []string{`false "" true []`},
		},
		{
			name:   "settings of the pod",
			values: "{dnsPolicy: Default, terminationGracePeriodSeconds: 0, imagePullSecrets: [{name: registry}], existingConfigMap: own}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				pod := scheduler(t, objects).Template.Spec
				return []string{
					string(pod.DNSPolicy),
					fmt.Sprint(*pod.TerminationGracePeriodSeconds),
					pod.ImagePullSecrets[0].Name,
					pod.Volumes[0].ConfigMap.Name,
				}
			},
			want: []string{"Default", "0", "registry", "own"},
		},
		{
			name:   "more volumes",
			values: "{extraVolumes: [{name: models, configMap: {name: m}}], extraVolumeMounts: [{name: models, mountPath: /models, readOnly: true}]}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				pod := scheduler(t, objects).Template.Spec
				volume, mount := pod.Volumes[len(pod.Volumes)-1], pod.Containers[0].VolumeMounts[len(pod.Volumes)-1]
				return []string{volume.Name, volume.ConfigMap.Name, mount.Name, mount.MountPath, fmt.Sprint(mount.ReadOnly)}
			},
			want: []string{"models", "m", "models", "/models", "true"},
		},
		{
			name: "minAvailable takes the place of maxUnavailable", values: "{replicas: 3, podDisruptionBudget: {minAvailable: 2}}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				spec := one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec
				return []string{spec.MinAvailable.String(), fmt.Sprint(spec.MaxUnavailable)}
			},
			want: []string{"2", "<nil>"},
		},
		{
			name: "half of the replicas may be evicted", values: "podDisruptionBudget: {minAvailable: 50%}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				return []string{one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget").Spec.MinAvailable.String()}
			},
			want: []string{"50%"},
		},
		{
			name: "without a budget, minAvailable has no effect", values: "podDisruptionBudget: {enabled: false, minAvailable: 2}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				return []string{fmt.Sprint(len(find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")))}
			},
			want: []string{"0"},
		},
		{
			name:   "with OpenShift's operator, minAvailable has no effect",
			values: "{target: OpenShift, podDisruptionBudget: {minAvailable: 2}}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				return []string{fmt.Sprint(len(find[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")))}
			},
			want: []string{"0"},
		},
		{
			name: "the operator reads a ConfigMap of one's own", values: "{target: OpenShift, existingConfigMap: own}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				name, _, err := unstructured.NestedString((*one[map[string]any](t, objects, "SecondaryScheduler")), "spec", "schedulerConfig")
				return []string{name, fmt.Sprint(err)}
			},
			want: []string{"own", "<nil>"},
		},
		{
			name:   "the operator's log level and topology",
			values: "{target: OpenShift, openshift: {logLevel: Debug, topology: {mode: HighlyAvailable, highlyAvailableTopology: {maxReplicas: 2}}}}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				return []string{fmt.Sprint((*one[map[string]any](t, objects, "SecondaryScheduler"))["spec"])}
			},
			want: []string{
				"map[logLevel:Debug managementState:Managed schedulerConfig:plimsoll schedulerImage:" + image + " topology:map[highlyAvailableTopology:map[maxReplicas:2] mode:HighlyAvailable]]",
			},
		},
		{
			name:   "helm test places a pod by each profile",
			values: "config: {profiles: [{schedulerName: a}, {schedulerName: b}]}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) (got []string) {
				for _, p := range find[corev1.Pod](t, objects, "Pod") {
					got = append(
						got,
						fmt.Sprint(p.Name, " ", p.Annotations["helm.sh/hook"], " ", p.Spec.SchedulerName, " ", p.Spec.Containers[0].Command),
					)
				}
				return got
			},
			want: []string{
				"plimsoll-test-0 test a [/bin/kube-scheduler --version]",
				"plimsoll-test-1 test b [/bin/kube-scheduler --version]",
			},
		},
		{
			name:   "the pod of helm test runs where the scheduler runs, and is deleted in any case",
			values: "{imagePullSecrets: [{name: registry}], nodeSelector: {a: b}, tolerations: [{key: c, operator: Exists}]}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				p := one[corev1.Pod](t, objects, "Pod")
				return []string{
					fmt.Sprint(
						p.Spec.ImagePullSecrets[0].Name,
						" ",
						p.Spec.NodeSelector,
						" ",
						p.Spec.Tolerations[0].Key,
					),
					p.Annotations["helm.sh/hook-delete-policy"],
				}
			},
			want: []string{"registry map[a:b] c", "before-hook-creation,hook-succeeded,hook-failed"},
		},
		{
			name:   "the service monitor verifies the certificate before it sends a token",
			values: "{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate}}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				command := scheduler(t, objects).Template.Spec.Containers[0].Command
				return append(command[len(command)-2:], tlsConfig(t, objects)...)
			},
			want: []string{
				"--tls-cert-file=/etc/plimsoll/tls/tls.crt", "--tls-private-key-file=/etc/plimsoll/tls/tls.key",
				"map[ca:map[secret:map[key:ca.crt name:certificate]] serverName:plimsoll.plimsoll-system.svc]",
			},
		},
		{
			name:   "the certificate has another name, and its authority another key",
			values: "{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate, serverName: scheduler.example.com, caKey: authority.pem}}",
			got:    tlsConfig,
			want:   []string{"map[ca:map[secret:map[key:authority.pem name:certificate]] serverName:scheduler.example.com]"},
		},
		{
			name:   "the certificate is of an authority that Prometheus trusts",
			values: `{serviceMonitor: {enabled: true}, servingCertificate: {secretName: certificate, caKey: ""}}`,
			got:    tlsConfig,
			want:   []string{"map[serverName:plimsoll.plimsoll-system.svc]"},
		},
		{
			name:   "the service monitor does not verify the certificate",
			values: "{serviceMonitor: {enabled: true, insecureSkipVerify: true}, servingCertificate: {secretName: certificate}}",
			got:    tlsConfig,
			want:   []string{"map[insecureSkipVerify:true]"},
		},
		{
			name: "everyone may reach the metrics port, and no other",
			got:  traffic,
			want: []string{
				"[Ingress Egress]",
				"ingress TCP 10259",
				"egress UDP 53",
				"egress TCP 53",
				"egress UDP 5353",
				"egress TCP 5353",
				"egress TCP all",
			},
		},
		{
			name:   "the network policy opens the port of metrics",
			values: "port: 10300",
			got:    traffic,
			want: []string{
				"[Ingress Egress]",
				"ingress TCP 10300",
				"egress UDP 53",
				"egress TCP 53",
				"egress UDP 5353",
				"egress TCP 5353",
				"egress TCP all",
			},
		},
		{
			name: "metricsFrom and apiServer narrow the network policy",
			values: `
networkPolicy:
  apiServer: {cidrs: [10.0.0.1/32, 10.0.0.2/32], ports: [6443]}
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
`,
			got: traffic,
			want: []string{
				"[Ingress Egress]", "ingress TCP 10259 namespace monitoring",
				"egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353",
				"egress TCP 6443 10.0.0.1/32 10.0.0.2/32",
			},
		},
		{
			name: "the admission policy never refuses a pod", values: "admissionPolicy: {enabled: true}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) []string {
				p := one[admissionregistrationv1.MutatingAdmissionPolicy](t, objects, "MutatingAdmissionPolicy").Spec
				return []string{string(*p.FailurePolicy), string(p.ReinvocationPolicy)}
			},
			want: []string{"Ignore", "Never"},
		},
		{
			name: "the load-watcher listens at the port of its service", values: "loadWatcher: {enabled: true}",
			got: func(t *testing.T, objects []*unstructured.Unstructured) (got []string) {
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
			},
			want: []string{"plimsoll-load-watcher 2020 http", "plimsoll 10259 https", "https 10259", "http 2020"},
		},
		{
			name:   "every pod may read the load-watcher",
			values: "{loadWatcher: {enabled: true}, networkPolicy: {apiServer: {ports: [6443]}}}",
			got:    loadWatcherTraffic,
			want: []string{
				"[Ingress Egress]",
				"ingress TCP 2020",
				"egress UDP 53",
				"egress TCP 53",
				"egress UDP 5353",
				"egress TCP 5353",
				"egress TCP 6443",
			},
		},
		{
			name: "clients restricts the readers of the load-watcher",
			values: `
networkPolicy: {apiServer: {ports: [6443]}}
loadWatcher: {enabled: true, clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: schedulers}}}]}
`,
			got: loadWatcherTraffic,
			want: []string{
				"[Ingress Egress]", "ingress TCP 2020 namespace schedulers",
				"egress UDP 53", "egress TCP 53", "egress UDP 5353", "egress TCP 5353", "egress TCP 6443",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got(t, render(t, tt.values))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// tlsConfig returns how the only ServiceMonitor verifies the scheduler.
func tlsConfig(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	endpoints, _, err := unstructured.NestedSlice(*one[map[string]any](t, objects, "ServiceMonitor"), "spec", "endpoints")
	if err != nil {
		t.Fatal(err)
	}
	return []string{fmt.Sprint(endpoints[0].(map[string]any)["tlsConfig"])}
}

// traffic returns the policy types of the only NetworkPolicy, and what it allows: direction, protocol, port and peers.
func traffic(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	return allowed(one[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy").Spec)
}

// loadWatcherTraffic is like traffic, of the policy of the load-watcher.
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

// allowed returns the policy types of a NetworkPolicy, and what it allows, as traffic does.
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
