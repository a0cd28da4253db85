package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// loadReaderSuffix ends the name of the account that may only read the scheduler's load. The name begins with the Deployment's.
	loadReaderSuffix = "-load-reader"
	// loadTimeout is how long a command waits for the load, and retryLoad how long it then reads the sources itself.
	loadTimeout  = 5 * time.Second
	retryLoad    = time.Minute
	maxLoadBytes = 256 << 20
	// tokenLife is that of the tokens of this account, the shortest that an API server grants.
	tokenLife = 10 * time.Minute
)

// loadReader reads what the leading scheduler decides by. It sends no credential of the user to the scheduler's pod.
// Where the request leaves this pod, it has a short-lived token of an account that may do nothing else: the certificate of the
// scheduler is not verified.
//   - Outside, the request goes through the API server's proxy.
//   - In the scheduler's own pod, and in the rebalancer's, it goes to the leader's address. The leader itself reads at localhost.
type loadReader struct {
	*Connection
	workload *Workload
	election componentbaseconfig.LeaderElectionConfiguration
	direct   bool
	clock    clock.PassiveClock

	token   string
	expires time.Time
	// failed is the error of the last try, at failedAt; nil if it succeeded.
	failed   error
	failedAt time.Time
}

// loadReader returns nil if the options name no scheduler that runs, or another source. It also returns nil for a rebalancer
// outside of the cluster, whose account may not use the API server's proxy.
func (c *Connection) loadReader(o *Options) *loadReader {
	if o.Source != (SourceOptions{}) || o.Workload == nil || o.FilesAreHere && !c.InPod {
		return nil
	}
	return &loadReader{
		Connection: c, workload: o.Workload, election: o.Workload.LeaderElection(o.Configuration), clock: o.Clock,
		direct: o.FilesAreHere || c.IsIn(o.Workload),
	}
}

// read returns what the leading scheduler decides by now. After an error it returns the same for a while, because a try may take
// long.
func (r *loadReader) read(ctx context.Context, withStatistics bool) (*provider.Served, error) {
	if r.failed != nil && r.clock.Since(r.failedAt) < retryLoad {
		return nil, r.failed
	}
	served, err := r.request(ctx, withStatistics)
	if apierrors.IsForbidden(err) && !r.direct {
		err = r.grants(ctx, err)
	}
	r.failed, r.failedAt = err, r.clock.Now()
	return served, err
}

// grants adds the commands that grant the permissions that the user lacks.
func (r *loadReader) grants(ctx context.Context, err error) error {
	missing, _ := r.MissingPermissions(ctx, "", []Permission{
		{Group: coordinationv1.GroupName, Resource: "leases", Verbs: []string{"get"}, Namespace: r.election.ResourceNamespace},
		{Resource: "serviceaccounts/token", Verbs: []string{"create"}, Namespace: r.workload.Namespace, Name: r.account()},
		{Resource: "pods/proxy", Verbs: []string{"get"}, Namespace: r.workload.Namespace},
	})
	for i := range missing {
		err = fmt.Errorf("%w; grant the permission: %s", err, grant(&missing[i], r.User(ctx)).For(r.Chosen))
	}
	return err
}

func (r *loadReader) account() string { return r.workload.Name + loadReaderSuffix }

func (r *loadReader) request(ctx context.Context, withStatistics bool) (*provider.Served, error) {
	port := r.workload.loadPort()
	if port == "0" {
		return nil, errors.New("--load-port is 0")
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	pod, err := r.leader(ctx)
	if err != nil {
		return nil, err
	}
	var request *rest.Request
	if r.direct {
		request, err = r.toAddress(ctx, pod, port)
	} else {
		request, err = r.podProxy(r.workload.Namespace, pod, port, provider.ServedPath), r.renew(ctx)
		ctx = context.WithValue(ctx, forwardedToken{}, r.token)
	}
	if err != nil {
		return nil, err
	}
	if !withStatistics {
		request.Param(provider.WithoutStatistics, "")
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	var served provider.Served
	if err := json.NewDecoder(source.BoundBody(body, maxLoadBytes)).Decode(&served); err != nil {
		return nil, text.ExcerptError(err)
	}
	if served.APIVersion != provider.ServedVersion {
		return nil, fmt.Errorf("it serves apiVersion %q, this is %s", text.Excerpt(served.APIVersion), provider.ServedVersion)
	}
	return &served, nil
}

// leader returns the name of the pod that leads.
func (r *loadReader) leader(ctx context.Context) (string, error) {
	if !r.election.LeaderElect && len(r.workload.Pods) == 1 {
		return r.workload.Pods[0], nil
	}
	leases := r.Client.CoordinationV1().Leases(r.election.ResourceNamespace)
	lease, err := leases.Get(ctx, r.election.ResourceName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	holder := HolderOf(lease)
	if slices.Contains(r.workload.Pods, holder) {
		return holder, nil
	}
	onNode := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", holder).String()}
	if pods, err := r.Client.CoreV1().Pods(r.workload.Namespace).List(ctx, onNode); err == nil && holder != "" {
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.HostNetwork && r.workload.has(pod) {
				return pod.Name, nil
			}
		}
	}
	if holder == "" || len(r.workload.Pods) > 0 {
		return "", fmt.Errorf("none of its pods holds Lease %s/%s", r.election.ResourceNamespace, r.election.ResourceName)
	}
	return holder, nil
}

// has reports whether the pod is one of the workload's, or of the Deployment's name if the workload's pods are not known.
func (w *Workload) has(pod *corev1.Pod) bool {
	if len(w.Pods) > 0 {
		return slices.Contains(w.Pods, pod.Name)
	}
	return strings.HasPrefix(pod.Name, w.Name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]+"-")
}

// HolderOf returns the host name of a Lease's holder; empty if nobody holds the Lease. The host name is the pod's name, unless the
// pod has its node's network.
func HolderOf(lease *coordinationv1.Lease) string {
	host, _, _ := strings.Cut(text.Excerpt(ptr.Deref(lease.Spec.HolderIdentity, "")), "_")
	return host
}

// renew requests a token if the last one is old.
func (r *loadReader) renew(ctx context.Context) error {
	if now := r.clock.Now(); !now.Before(r.expires) {
		request := &authenticationv1.TokenRequest{}
		request.Spec.ExpirationSeconds = new(int64(tokenLife.Seconds()))
		accounts := r.Client.CoreV1().ServiceAccounts(r.workload.Namespace)
		granted, err := accounts.CreateToken(ctx, r.account(), request, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("%w; upgrade the scheduler's chart, which makes this account", err)
		}
		if err != nil {
			return err
		}
		r.token, r.expires = granted.Status.Token, now.Add(tokenLife/2)
	}
	return nil
}

// podProxy requests a path of a pod through the API server, which forwards no credentials of the user.
func (c *Connection) podProxy(namespace, pod, port, path string) *rest.Request {
	return c.Client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").Name("https:" + pod + ":" + port).
		SubResource("proxy").Suffix(path)
}

func (r *loadReader) toAddress(ctx context.Context, pod, port string) (*rest.Request, error) {
	own := rest.CopyConfig(r.KubeConfig)
	own.Insecure, own.CAFile, own.CAData, own.ServerName = true, "", nil, "" // the certificate is self-signed
	if own.Host = "https://localhost:" + port; pod != podName() {
		if err := r.renew(ctx); err != nil {
			return nil, err
		}
		own = rest.AnonymousClientConfig(own)
		own.BearerToken = r.token
		// The rebalancer may list pods, but not get one.
		pods := r.Client.CoreV1().Pods(r.workload.Namespace)
		leaders, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
		if err != nil {
			return nil, err
		}
		if len(leaders.Items) == 0 {
			return nil, fmt.Errorf("its leader %s is no pod of namespace %s", text.Excerpt(pod), r.workload.Namespace)
		}
		own.Host = "https://" + net.JoinHostPort(leaders.Items[0].Status.PodIP, port)
	}
	client, _, err := newClient(own)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().RESTClient().Get().AbsPath(provider.ServedPath), nil
}

// loadPort returns the port at which the scheduler serves its load.
func (w *Workload) loadPort() string {
	port, _ := w.Flags().GetInt(provider.PortFlag) // defined by Workload.options
	return strconv.Itoa(cmp.Or(int(w.LoadPort), port))
}
