package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const (
	schedulerUser     = "system:kube-scheduler"
	frontProxyUser    = "front-proxy-client"
	metricsServerName = "metrics-server"
	// schedulerConfig is the name of the scheduler's configuration file.
	schedulerConfig = "scheduler.yaml"
)

// process returns a process of this cluster that is not started yet. Its working directory and its log are named after it.
func (c *Cluster) process(name string, ready func(context.Context) error, args ...string) *Process {
	return &Process{
		name: name, path: filepath.Join(c.options.BinDir, name), args: args, dir: c.path(name), log: c.path(name + ".log"), ready: ready,
	}
}

func (c *Cluster) etcd() *Process {
	client, peer := c.Endpoints.Etcd, "http://"+address(c.ports.etcdPeer)
	return c.process("etcd", respondsOK(client+"/health"),
		"--data-dir=.",
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	)
}

func (c *Cluster) apiServer() *Process {
	key := c.authority.keyFile("apiserver") // also signs the tokens of service accounts
	server := "https://" + address(c.ports.apiServer)
	args := []string{
		"--etcd-servers=" + c.Endpoints.Etcd,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(c.ports.apiServer),
		// Without this address the API server looks for one, and fails on a machine without a network. The endpoints of the
		// service "kubernetes" may not hold a loopback address, so they are not reconciled.
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none",
		"--cert-dir=.",
		"--tls-cert-file=" + c.authority.certFile("apiserver"),
		"--tls-private-key-file=" + key,
		"--client-ca-file=" + c.authority.certFile(authorityName),
		"--authorization-mode=RBAC",
		"--allow-privileged",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=" + server,
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		// Both rely on controllers that do not run here. One creates service accounts, the other removes a taint of new nodes.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		// API aggregation, for metrics-server.
		"--requestheader-client-ca-file=" + c.authority.certFile(authorityName),
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.authority.certFile(frontProxyUser),
		"--proxy-client-key-file=" + c.authority.keyFile(frontProxyUser),
	}
	if c.options.AuditLog {
		args = append(args, "--audit-policy-file="+c.path(auditPolicy), "--audit-log-path="+c.path(auditLog))
	}
	return c.process("kube-apiserver", c.apiServerReady, append(args, c.options.APIServerArgs...)...)
}

// apiServerReady requires the default namespace too: the API server creates it after it has become ready.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	if err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	_, err := c.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

func (c *Cluster) kwok() *Process {
	return c.process("kwok", respondsOK("http://"+address(c.ports.kwok)+"/healthz"),
		"--kubeconfig="+c.AdminKubeconfig,
		"--config="+c.path("kwok.yaml"),
		"--manage-all-nodes",
		"--node-ip="+loopback,
		"--node-port="+strconv.Itoa(c.ports.kwok),
		"--server-address="+address(c.ports.kwok),
	)
}

func (c *Cluster) prometheusAt(name, config string, port int) *Process {
	return c.process(name, respondsOK("http://"+address(port)+"/-/ready"),
		"--config.file="+c.path(config), "--storage.tsdb.path=data", "--web.listen-address="+address(port), "--log.level=warn")
}

// Replica is a program beside the parts, which serves at URL. It ends with the cluster.
type Replica struct {
	*Process
	URL string
}

// RunPrometheus runs one more Prometheus, which has no samples yet, and waits until it can be used. It ends with the
// cluster. The name is also that of its log. edit changes the configuration of Cluster.Prometheus; files are written
// beside it, by name.
func (c *Cluster) RunPrometheus(
	ctx context.Context, name string, edit func(string) string, files map[string]string,
) (r Replica, err error) {
	original, err := os.ReadFile(c.path("prometheus.yaml"))
	if err != nil {
		return r, err
	}
	config := name + ".yaml"
	for file, content := range files {
		err = errors.Join(err, os.WriteFile(c.path(file), []byte(content), 0o600))
	}
	if err := errors.Join(err, os.WriteFile(c.path(config), []byte(edit(string(original))), 0o600)); err != nil {
		return r, err
	}
	return c.runReplica(ctx, "prometheus", "http", func(port int) *Process { return c.prometheusAt(name, config, port) })
}

// runReplica runs a program that listens at a free port.
func (c *Cluster) runReplica(
	ctx context.Context, program, scheme string, listening func(port int) *Process,
) (r Replica, err error) {
	port, err := FreePort()
	if err != nil {
		return r, err
	}
	r = Replica{listening(port), scheme + "://" + address(port)}
	r.path = filepath.Join(c.options.BinDir, program)
	return r, c.run(ctx, r.Process)
}

// RunConfined runs a program as an arbitrary user without capabilities, whose root folder is root, and waits until the URL ready
// responds with 200. It ends with the cluster. The name is that of its log, and env its environment.
func (c *Cluster) RunConfined(
	ctx context.Context, name, root string, env []string, ready string, command ...string,
) (*Process, error) {
	p := c.process(name, respondsOK(ready), command[1:]...)
	p.path, p.root, p.dir, p.env = command[0], root, "/", env
	return p, c.run(ctx, p)
}

// Token returns a token of a service account, which is valid for an hour.
func (c *Cluster) Token(ctx context.Context, namespace, account string) (string, error) {
	accounts := c.Client.CoreV1().ServiceAccounts(namespace)
	request, err := accounts.CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, nil
}

// RunRebalancer runs a rebalancer with these arguments, and waits until it serves. The name is also that of its log.
func (c *Cluster) RunRebalancer(ctx context.Context, name string, args ...string) (Replica, error) {
	return c.runReplica(ctx, "rebalancer", "http", func(port int) *Process {
		return c.process(name, respondsOK("http://"+address(port)+"/readyz"), append(args, "--listen-address="+address(port))...)
	})
}

// schedulerAt returns a scheduler. Requests for its metrics and profiles take no certificate, so they need no API server.
func (c *Cluster) schedulerAt(name, config string, port int, args ...string) Replica {
	url := "https://" + address(port)
	return Replica{c.process(name, respondsOK(url+"/readyz"), append([]string{
		"--config=" + c.path(config), "--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--authentication-kubeconfig=" + c.Endpoints.Kubeconfig, "--authorization-kubeconfig=" + c.Endpoints.Kubeconfig,
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/debug/pprof/heap,/debug/pprof/profile",
	}, args...)...), url}
}

// RunScheduler runs one more scheduler, with the permissions of Options.Scheduler, and waits until it is ready. The name is also
// that of its log; configuration is as in Options.Scheduler.
func (c *Cluster) RunScheduler(ctx context.Context, name, program, configuration string, args ...string) (r Replica, err error) {
	config := name + ".yaml"
	if err := c.render(config, configuration, c.Endpoints); err != nil {
		return r, err
	}
	return c.runReplica(ctx, program, "https", func(port int) *Process { return c.schedulerAt(name, config, port, args...).Process })
}

// Metrics returns the metrics of the replica. A paused replica does not respond before ctx ends.
func (r Replica) Metrics(ctx context.Context) (Metrics, error) {
	text, err := r.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}

// Get returns what the replica responds at a path.
func (r Replica) Get(ctx context.Context, path string) (string, error) {
	return getUnverified(ctx, r.URL+path)
}

func (c *Cluster) metricsServer() *Process {
	return c.process(metricsServerName, c.metricsServerReady,
		"--kubeconfig="+c.AdminKubeconfig,
		"--authentication-kubeconfig="+c.AdminKubeconfig,
		"--authorization-kubeconfig="+c.AdminKubeconfig,
		"--cert-dir=.",
		"--bind-address="+loopback,
		"--secure-port="+strconv.Itoa(c.ports.metricsServer),
		// KWOK's certificate is self-signed.
		"--kubelet-insecure-tls",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-use-node-status-port",
		// The shortest that metrics-server allows.
		"--metric-resolution=10s",
		"--kubelet-request-timeout=5s",
	)
}

// metricsServerReady asks through the API server. The readiness of metrics-server itself would take a node to measure.
func (c *Cluster) metricsServerReady(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1").Do(ctx).Error()
}

// create creates the objects of one of the configuration files, a YAML stream.
func (c *Cluster) create(ctx context.Context, config string) error {
	stream, err := os.ReadFile(c.path(config))
	if err != nil {
		return err
	}
	objects, err := manifests.Objects(stream)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		in := client.Resource(resource).Namespace(object.GetNamespace())
		if _, err := in.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s of %s: %w", resource.Resource, config, err)
		}
	}
	return nil
}

// respondsOK returns a check that a URL responds with 200. It does not verify the certificate: the port is ours.
func respondsOK(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := getUnverified(ctx, url)
		return err
	}
}

func getUnverified(ctx context.Context, url string) (string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	return get(ctx, &http.Client{Transport: transport}, url)
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), nil
}
