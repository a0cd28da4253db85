package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	system = "plimsoll-system"
	// sourceToken is the token that Prometheus requires in the test of the chart.
	sourceToken = "a-token-for-load"
)

// TestManifests applies the manifests and the rendered chart, and runs their containers as a kubelet would.
func TestManifests(t *testing.T) {
	e := start(t, cluster.Options{MetricsServer: true, AuditLog: true, APIServerArgs: betaPolicies(t)})
	e.applyCRDs()
	for name, size := range map[string]string{"worker-1": "8", "worker-2": "8", "small": "2"} {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: name, CPU: size, Memory: "32Gi"}))
		e.must(e.SetLoad(e.ctx, name, cluster.Load{Usage: cluster.Usage{CPU: "500m", Memory: "4Gi"}}))
	}

	// Each part starts from the state that the previous one leaves.
	t.Run("the API server accepts all of them", func(t *testing.T) { e.in(t).wantApplied() })
	second := e.wantScheduling()
	all := e.wantAllFeatures()
	t.Run("the admission policy sets the scheduler of a namespace's pods", func(t *testing.T) { e.in(t).wantAdmission() })
	t.Run("the metrics of dashboard and alerts exist", func(t *testing.T) { e.in(t).wantMonitoring(all) })
	t.Run("a malformed annotation causes a warning event", func(t *testing.T) { e.in(t).wantInvalidAnnotationOn("small", "limited") })
	t.Run("all permissions are used, and no request is forbidden", func(t *testing.T) {
		e := e.in(t)
		scheduler, loadWatcher := account(system, "plimsoll"), account(system, "plimsoll-load-watcher")
		if _, newest := kubernetes(t); newest { // an older scheduler does not use all of them
			e.wantRulesUsed(scheduler, "plimsoll", unusedByTheScheduler())
		}
		e.wantRulesUsed(loadWatcher, "plimsoll-load-watcher", map[string][]right{listed: {"list /nodes"}})
		e.wantNothingForbidden(scheduler, second.scheduler, all.scheduler)
		e.wantNothingForbidden(loadWatcher, all.loadWatcher)
	})
}

type installation struct {
	scheduler, loadWatcher         *cluster.Process
	schedulerPort, loadWatcherPort int
}

func (e environment) wantApplied() {
	const operator = "openshift-secondary-scheduler-operator"
	e.createNamespace(operator, nil)
	e.apply(manifest(e.t, "second-scheduler.yaml"))
	allFeatures := string(readFile(e.t, "testdata", "all-features.yaml"))
	for name, rendered := range map[string][]*unstructured.Unstructured{
		"openshift": slices.Concat(manifest(e.t, "openshift/configmap.yaml"), manifest(e.t, "openshift/rbac.yaml"),
			manifest(e.t, "openshift/secondaryscheduler.yaml")),
		"default-scheduler":              manifest(e.t, "default-scheduler/rbac.yaml"),
		"stopgap":                        manifest(e.t, "stopgap/stopgap.yaml"),
		"chart":                          render(e.t, system, ""),
		"chart, all features":            render(e.t, system, allFeatures),
		"chart, all features, OpenShift": render(e.t, operator, "target: OpenShift\n"+forOperator(allFeatures)),
	} {
		if err := e.tryApply(rendered, metav1.DryRunAll); err != nil {
			e.t.Errorf("%s: %v", name, err)
		}
		for _, d := range find[deployment](e.t, rendered, "Deployment") {
			// The namespace of the second scheduler has Pod Security restricted enforced.
			_, err := e.Client.CoreV1().Pods(system).Create(e.ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec,
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				e.t.Errorf("%s: a pod of %s: %v", name, d.Name, err)
			}
		}
	}
	// An unknown field must be refused; otherwise the test above shows nothing.
	for _, name := range []string{"second-scheduler.yaml", "openshift/secondaryscheduler.yaml"} {
		wrong := manifest(e.t, name)
		last := wrong[len(wrong)-1]
		e.must(unstructured.SetNestedField(last.Object, "x", "spec", "schedulerImages"))
		check.Error(e.t, e.tryApply(wrong[len(wrong)-1:], metav1.DryRunAll), "schedulerImages")
	}
}

type deployment struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// forOperator removes the values that target OpenShift refuses, and the files that the operator does not mount.
func forOperator(values string) string {
	return regexp.MustCompile(`(?m)^ *(tokenFile|caFile): .*\n|^(serviceMonitor|prometheusRule|dashboard|loadWatcher):.*\n( .*\n)*`).
		ReplaceAllString(values, "")
}

// wantScheduling runs the second scheduler of the manifest with its own configuration. The scheduler does all its tasks, and is
// stopped.
func (e environment) wantScheduling() installation {
	c, port := e.scheduler(system, "plimsoll")
	i := installation{scheduler: e.run(c), schedulerPort: port}
	e.eventually("the second scheduler to lead", func() bool { return e.holder(system, "plimsoll") != "" })
	e.wantPreempted()
	e.wantVolumes()
	e.wantDevices()
	e.must(i.scheduler.Stop())
	return i
}

// wantAllFeatures replaces the manifest by the chart with all features on, and runs its containers. It changes only the ports of
// the sources in the configuration.
func (e environment) wantAllFeatures() (i installation) {
	proxy, ca := e.prometheusFor("prometheus.monitoring.svc", func(token string) bool { return token == sourceToken })
	check.Value(e.Client.CoreV1().Secrets(system).Create(e.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token"}, StringData: map[string]string{"token": sourceToken},
	}, metav1.CreateOptions{}))(e.t)
	certificate, key, err := cert.GenerateSelfSignedCertKey("plimsoll."+system+".svc", nil, nil)
	e.must(err)
	check.Value(e.Client.CoreV1().Secrets(system).Create(e.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "serving-certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, "ca.crt": certificate},
	}, metav1.CreateOptions{}))(e.t)
	check.Value(e.Client.CoreV1().ConfigMaps(system).Create(e.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: map[string]string{"ca.crt": ca},
	}, metav1.CreateOptions{}))(e.t)
	e.apply(render(e.t, system, string(readFile(e.t, "testdata", "all-features.yaml"))))

	c, port := e.container(system, "plimsoll-load-watcher")
	c.Command = append(c.Command, fmt.Sprintf("--listen-address=127.0.0.1:%d", port))
	i.loadWatcher, i.loadWatcherPort = e.run(c), port
	c, port = e.scheduler(system, "plimsoll")
	c.Name += "-all-features"
	e.must(redirect(&c, "https://prometheus.monitoring.svc:9090", proxy))
	e.must(redirect(&c, "http://plimsoll-load-watcher.plimsoll-system.svc:2020", i.loadWatcherPort))
	i.scheduler, i.schedulerPort = e.run(c), port
	for _, profile := range []string{"plimsoll", "limited", "shared"} {
		e.createPod(podIn(metav1.NamespaceDefault, profile, func(p *corev1.Pod) { p.Spec.SchedulerName = profile }))
		e.waitBoundIn(metav1.NamespaceDefault, profile)
	}
	return i
}

func (e environment) wantPreempted() {
	e.must(e.CreatePriorityClass(e.ctx, "high", 1000))
	e.placeLimited(cluster.Pod{Name: "victim", Scheduler: profile, NodeSelector: host("small"), Resources: requests("2")})
	pod := cluster.Pod{
		Name: "preemptor", Scheduler: profile, PriorityClass: "high", NodeSelector: host("small"), Resources: requests("2"),
	}
	if e.placeLimited(pod); e.nodeOf("victim") != "" {
		e.t.Error("the victim is still on its node")
	}
	e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "name=preemptor"}))
}

// wantVolumes has a pod wait for its claims and then for their volumes: one exists, two are provisioned. The test acts as the
// controller of volumes. It creates the pod's first claim last, so the pod is refused three times for the same reason. The third
// refusal is counted in the event of the second.
func (e environment) wantVolumes() {
	const pod, disks = "with-volumes", "provisioned"
	claims := []string{"there", "provisioned-1", "provisioned-2"}
	classes := map[string]string{"there": "there", "provisioned-1": disks, "provisioned-2": disks}
	for class, provisioner := range map[string]string{"there": "kubernetes.io/no-provisioner", disks: "test.plimsoll.io/disks"} {
		check.Value(e.Client.StorageV1().StorageClasses().Create(e.ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}, metav1.CreateOptions{}))(e.t)
	}
	e.createVolume("there", "there", nil)
	e.createPod(podIn(metav1.NamespaceDefault, pod, func(p *corev1.Pod) {
		p.Spec.SchedulerName = profile
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
	}))
	refusals := func() (times int) {
		for _, event := range e.events(metav1.NamespaceDefault, "FailedScheduling") {
			if event.Regarding.Name == pod {
				times++
				if event.Series != nil {
					times += int(event.Series.Count) - 1
				}
			}
		}
		return times
	}
	for i, claim := range []string{"provisioned-1", "provisioned-2", "there"} {
		e.eventually(fmt.Sprintf("%s to be refused %d times", pod, i+1), func() bool { return refusals() > i })
		class := classes[claim]
		check.Value(e.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Create(e.ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claim},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}, metav1.CreateOptions{}))(e.t)
	}
	e.eventually("the scheduler to bind the volume that exists", func() bool {
		volume := check.Value(e.Client.CoreV1().PersistentVolumes().Get(e.ctx, "there", metav1.GetOptions{}))(e.t)
		return volume.Spec.ClaimRef != nil
	})
	for _, claim := range claims[1:] {
		e.eventually("the scheduler to ask for "+claim, func() bool {
			c := check.Value(e.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Get(e.ctx, claim, metav1.GetOptions{}))(e.t)
			return c.Annotations["volume.kubernetes.io/selected-node"] != ""
		})
		e.createVolume(claim, disks, &corev1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: claim})
	}
	for _, claim := range claims {
		e.bindClaim(claim)
	}
	e.waitBoundIn(metav1.NamespaceDefault, pod)
}

func (e environment) createVolume(name, class string, claim *corev1.ObjectReference) {
	e.t.Helper()
	volume := check.Value(e.Client.CoreV1().PersistentVolumes().Create(e.ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, ClaimRef: claim, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + name}},
		},
	}, metav1.CreateOptions{}))(e.t)
	volume.Status.Phase = corev1.VolumeAvailable
	check.Value(e.Client.CoreV1().PersistentVolumes().UpdateStatus(e.ctx, volume, metav1.UpdateOptions{}))(e.t)
}

func (e environment) bindClaim(name string) {
	e.t.Helper()
	volumes, claims := e.Client.CoreV1().PersistentVolumes(), e.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault)
	claim := check.Value(claims.Get(e.ctx, name, metav1.GetOptions{}))(e.t)
	volume := check.Value(volumes.Get(e.ctx, name, metav1.GetOptions{}))(e.t)
	volume.Spec.ClaimRef.UID = claim.UID
	volume = check.Value(volumes.Update(e.ctx, volume, metav1.UpdateOptions{}))(e.t)
	volume.Status.Phase = corev1.VolumeBound
	check.Value(volumes.UpdateStatus(e.ctx, volume, metav1.UpdateOptions{}))(e.t)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	claim.Spec.VolumeName = name
	claim = check.Value(claims.Update(e.ctx, claim, metav1.UpdateOptions{}))(e.t)
	claim.Status.Phase = corev1.ClaimBound
	check.Value(claims.UpdateStatus(e.ctx, claim, metav1.UpdateOptions{}))(e.t)
}

func (e environment) wantDevices() {
	const driver, extended = "devices.test.plimsoll.io", "test.plimsoll.io/device"
	api := e.Client.ResourceV1()
	check.Value(api.DeviceClasses().Create(e.ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "device"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To(extended)},
	}, metav1.CreateOptions{}))(e.t)
	check.Value(api.ResourceSlices().Create(e.ctx, &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "devices-of-worker-2"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("worker-2"), Pool: resourcev1.ResourcePool{Name: "worker-2", ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "a"}, {Name: "b"}},
		},
	}, metav1.CreateOptions{}))(e.t)
	check.Value(api.ResourceClaims(metav1.NamespaceDefault).Create(e.ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "device"},
		}}}},
	}, metav1.CreateOptions{}))(e.t)
	e.createPod(podIn(metav1.NamespaceDefault, "claims-device", func(p *corev1.Pod) {
		p.Spec.SchedulerName = profile
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: ptr.To("one")}}
	}))
	pods := []string{"claims-device"}
	if v, _ := kubernetes(e.t); v.AtLeast(version.MustParseGeneric("1.36")) { // before, a device is no extended resource by default
		pods = append(pods, "requests-device")
		e.createPod(podIn(metav1.NamespaceDefault, "requests-device", func(p *corev1.Pod) {
			p.Spec.SchedulerName = profile
			one := corev1.ResourceList{extended: resource.MustParse("1")}
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		}))
	}
	for _, pod := range pods {
		if node := e.waitBoundIn(metav1.NamespaceDefault, pod); node != "worker-2" {
			e.t.Errorf("%s is on %s, want worker-2, which has the devices", pod, node)
		}
	}
}

// wantInvalidAnnotationOn sets a malformed annotation of a node. The plugin reads it once the load of the node is known.
func (e environment) wantInvalidAnnotationOn(node, profile string) {
	e.must(e.AnnotateNode(e.ctx, node, "plimsoll.io/thresholds", "cpu=lots"))
	e.eventually("a warning event about the annotation", func() bool {
		e.placeAndDelete(profile, host(node))
		return len(e.events(metav1.NamespaceDefault, "InvalidThresholds")) > 0
	})
}

// wantAdmission creates pods, some of which the policy gives a scheduler. The policy is in force with the first of them.
func (e environment) wantAdmission() {
	const label, stock = "plimsoll.io/scheduler", corev1.DefaultSchedulerName
	for namespace, value := range map[string]string{"shop": "plimsoll", "limits": "limited", "misspelled": "plimsol"} {
		e.createNamespace(namespace, map[string]string{label: value})
	}
	e.createNamespace("unlabeled", nil)
	e.eventually("the policy to be in force", func() bool {
		return e.createPod(podIn("shop", "first", nil), metav1.DryRunAll).Spec.SchedulerName == "plimsoll"
	})

	owned := func(group, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: group + "/v1", Kind: kind, Name: "a", UID: "a", Controller: ptr.To(true)},
			}
		}
	}
	for _, tt := range []struct {
		name, namespace string
		change          func(*corev1.Pod)
		want            string
	}{
		{"a pod of a labeled namespace", "shop", nil, "plimsoll"},
		{"the scheduler is the label's value", "limits", nil, "limited"},
		{"a pod of a ReplicaSet", "shop", owned("apps", "ReplicaSet"), "plimsoll"},
		{"a pod of a DaemonSet of another API group", "shop", owned("example.com", "DaemonSet"), "plimsoll"},
		{"a pod with the default scheduler, which is what the API server sets", "shop", func(p *corev1.Pod) { p.Spec.SchedulerName = stock }, "plimsoll"},
		{"a pod with another label value than the namespace", "shop", func(p *corev1.Pod) { p.Labels = map[string]string{label: "other"} }, "plimsoll"},
		{"two ports without a name", "shop", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolTCP}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
		}, "plimsoll"},
		{"a namespace without the label", "unlabeled", nil, stock},
		{"a label value that is no profile", "misspelled", nil, stock},
		{"a pod that names a scheduler", "shop", func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }, "another"},
		{"a pod that opts out", "shop", func(p *corev1.Pod) { p.Labels = map[string]string{label: stock} }, stock},
		{"a pod that is bound", "shop", func(p *corev1.Pod) { p.Spec.NodeName = "worker-1" }, stock},
		{"a pod of a DaemonSet", "shop", owned("apps", "DaemonSet"), stock},
	} {
		e.t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "its scheduler", tt.want,
				e.in(t).createPod(podIn(tt.namespace, "a", tt.change), metav1.DryRunAll).Spec.SchedulerName)
		})
	}
	e.t.Run("an existing pod is not changed", func(t *testing.T) {
		e := e.in(t)
		pod := e.createPod(podIn("shop", "updated", func(p *corev1.Pod) { p.Labels = map[string]string{label: stock} }))
		pod.Labels = nil
		pod = check.Value(e.Client.CoreV1().Pods("shop").Update(e.ctx, pod, metav1.UpdateOptions{}))(e.t)
		if pod.Spec.SchedulerName != stock {
			t.Errorf("its scheduler is %s", pod.Spec.SchedulerName)
		}
	})
	e.t.Run("a pod that the policy changes is placed", func(t *testing.T) {
		e := e.in(t)
		e.createPod(podIn("shop", "placed", owned("apps", "ReplicaSet")))
		e.waitBoundIn("shop", "placed")
	})
}

// prometheusFor serves the cluster's Prometheus with TLS under a host name, for allowed tokens alone. It returns the port and the
// certificate that clients verify.
func (e environment) prometheusFor(host string, allowed func(token string) bool) (port int, ca string) {
	e.t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	e.must(err)
	pair := check.Value(tls.X509KeyPair(certificate, key))(e.t)
	target := check.Value(url.Parse(e.Endpoints.Prometheus))(e.t)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !allowed(token) {
			http.Error(w, "the token is not allowed", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	e.t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port, string(certificate)
}

// right is one verb on one resource: "verb group/resource".
type right string

func rightOf(verb, group, resource, subresource string) right {
	if subresource != "" {
		resource += "/" + subresource
	}
	return right(verb + " " + group + "/" + resource)
}

func unusedByTheScheduler() map[string][]right {
	unused := map[string][]right{
		"of an API group that no longer exists": {
			"get extensions/replicasets", "list extensions/replicasets", "watch extensions/replicasets",
		},
		"no call: repeated events are patched":               {"update /events", "update events.k8s.io/events"},
		"events of leader election do not repeat in one run": {"patch /events"},
		"no call: the old name of pods/binding":              {"create /bindings"},
		"no call: the status of pods is patched":             {"update /pods/status"},
		"no call: volumes, claims and resource claims are updated": {
			"patch /persistentvolumes", "patch /persistentvolumeclaims", "patch resource.k8s.io/resourceclaims",
			"patch resource.k8s.io/resourceclaims/status",
		},
		"no call: claims are read with their status": {
			"get resource.k8s.io/resourceclaims/status", "list resource.k8s.io/resourceclaims/status",
			"watch resource.k8s.io/resourceclaims/status",
		},
		"only where PreBind fails after a claim was made": {"delete resource.k8s.io/resourceclaims"},
		"checked by the API server as part of a status update": {
			"update resource.k8s.io/resourceclaims/binding", "patch resource.k8s.io/resourceclaims/binding",
		},
		"checked by the admission plugin OwnerReferencesPermissionEnforcement, which is off by default": {"update /pods/finalizers"},
		"added by the values of this test": {
			"get scheduling.k8s.io/podgroups", "list scheduling.k8s.io/podgroups", "watch scheduling.k8s.io/podgroups",
		},
	}
	for _, resource := range []string{
		"/nodes", "/pods", "/services", "/replicationcontrollers", "/namespaces", "/persistentvolumes", "/persistentvolumeclaims",
		"apps/replicasets", "apps/statefulsets", "policy/poddisruptionbudgets",
		"storage.k8s.io/csinodes", "storage.k8s.io/volumeattachments", "storage.k8s.io/csidrivers", "storage.k8s.io/csistoragecapacities",
		"storage.k8s.io/storageclasses", "resource.k8s.io/deviceclasses", "resource.k8s.io/resourceslices", "resource.k8s.io/resourceclaims",
		"resource.k8s.io/devicetaintrules",
	} {
		unused[listed] = append(unused[listed], right("list "+resource))
		unused["no call: informers know the object"] = append(unused["no call: informers know the object"], right("get "+resource))
	}
	return unused
}

// listed is the reason why informers do not use the verb list.
const listed = "only where the API server cannot stream the first list of an informer"

// wantRulesUsed waits until a user has used all permissions of the Role of a name, except for those in unused. So it does for the
// ClusterRole of that name and the namespace. It logs the unused permissions of each rule.
func (e environment) wantRulesUsed(user, role string, unused map[string][]right) {
	e.t.Helper()
	type rule struct {
		name        string
		permissions []right
	}
	var rules []rule
	given := sets.New[right]()
	add := func(kind string, all []rbacv1.PolicyRule) {
		for _, r := range all {
			described := rule{name: fmt.Sprintf("%s: %v %v in %q %v", kind, r.Verbs, r.Resources, r.APIGroups, r.ResourceNames)}
			for _, verb := range r.Verbs {
				for _, group := range r.APIGroups {
					for _, resource := range r.Resources {
						described.permissions = append(described.permissions, rightOf(verb, group, resource, ""))
					}
				}
			}
			given.Insert(described.permissions...)
			rules = append(rules, described)
		}
	}
	clusterRole := check.Value(e.Client.RbacV1().ClusterRoles().Get(e.ctx, role+"."+system, metav1.GetOptions{}))(e.t)
	add("ClusterRole", clusterRole.Rules)
	roles := check.Value(e.Client.RbacV1().Roles(system).List(e.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + role}))(e.t)
	for _, r := range roles.Items {
		add("Role", r.Rules)
	}
	reasons := map[right]string{}
	for reason, permissions := range unused {
		for _, r := range permissions {
			reasons[r] = reason
			if !given.Has(r) {
				e.t.Errorf("%s is listed as unused, but no rule gives it", r)
			}
		}
	}

	used, missing := sets.New[right](), sets.New[right]()
	e.t.Cleanup(func() {
		if len(missing) > 0 {
			e.t.Logf("not used, and not listed as unused: %v", sets.List(missing))
		}
	})
	e.eventually(user+" to use its permissions", func() bool {
		events := check.Value(e.AuditEvents())(e.t)
		for _, event := range events {
			if event.User.Username == user && event.ObjectRef != nil {
				used.Insert(rightOf(event.Verb, event.ObjectRef.APIGroup, event.ObjectRef.Resource, event.ObjectRef.Subresource))
			}
		}
		missing = given.Difference(used).Difference(sets.KeySet(reasons))
		return len(missing) == 0
	})
	for _, rule := range rules {
		e.t.Log(rule.name)
		for _, r := range rule.permissions {
			if !used.Has(r) {
				e.t.Logf("    not used: %s (%s)", r, reasons[r])
			}
		}
	}
}
