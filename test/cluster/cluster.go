package cluster

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

//go:embed config
var configFiles embed.FS

// Options say what a cluster consists of.
type Options struct {
	// BinDir is the folder of the programs; see Parts.
	BinDir string
	// MetricsServer adds metrics-server and lets the scheduler read it.
	MetricsServer bool
	// Scheduler is the KubeSchedulerConfiguration, a text/template that is executed with Endpoints. If it is empty, no scheduler
	// runs.
	Scheduler string
	// SchedulerArgs are additional flags of the scheduler.
	SchedulerArgs []string
	// APIServerArgs are additional flags of the API server.
	APIServerArgs []string
	// AuditLog turns on the audit log of the API server; see AuditEvents.
	AuditLog bool
	// Race runs the scheduler built with the race detector.
	Race bool
	// ScrapeInterval is that of Prometheus; 0 stands for a second.
	ScrapeInterval time.Duration
	// StoreOnly leaves out KWOK and Prometheus: nothing plays the kubelets, and nothing is measured.
	StoreOnly bool
}

// Parts returns the programs that a cluster with these options needs in BinDir.
func (o Options) Parts() []string {
	parts := []string{"etcd", "kube-apiserver"}
	if !o.StoreOnly {
		parts = append(parts, "kwok", "prometheus")
	}
	if o.MetricsServer {
		parts = append(parts, metricsServerName)
	}
	if o.Scheduler != "" {
		parts = append(parts, o.scheduler())
	}
	return parts
}

func (o Options) scheduler() string {
	if o.Race {
		return "kube-scheduler-race"
	}
	return "kube-scheduler"
}

// Endpoints are the addresses of a cluster's parts.
type Endpoints struct {
	// Kubeconfig is the scheduler's kubeconfig file.
	Kubeconfig string
	// Prometheus is the URL of Prometheus.
	Prometheus string
	// Etcd is the URL of etcd.
	Etcd string
}

// Cluster is a running control plane.
type Cluster struct {
	// AdminKubeconfig is the kubeconfig file of an administrator.
	AdminKubeconfig string
	// Client has the permissions of an administrator.
	Client kubernetes.Interface
	// Endpoints are the addresses of the parts.
	Endpoints Endpoints
	// All of these may be stopped, paused and started again at any time. Scheduler has no Process if Options.Scheduler is empty.
	Etcd, APIServer, Prometheus *Process
	Scheduler                   Replica

	options Options
	// dir holds all files of the cluster.
	dir       string
	ports     ports
	authority *authority
	admin     *rest.Config

	mu sync.Mutex
	// processes are in the order in which they were started.
	processes []*Process

	stopOnce sync.Once
	stopErr  error
}

type ports struct {
	etcd, etcdPeer, apiServer, kwok, prometheus, metricsServer, scheduler int
}

// Start starts a cluster and waits until all its parts can be used. The cluster runs until ctx ends or Stop is called. Only Stop
// waits until all parts have ended.
func Start(ctx context.Context, o Options) (c *Cluster, err error) {
	if c, err = start(ctx, o); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Stop() })
	return c, nil
}

func start(ctx context.Context, o Options) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp("", "plimsoll-cluster-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the cluster: %w", err)
	}
	c := &Cluster{dir: dir, options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.run(ctx, c.Etcd); err != nil {
		return nil, err
	}
	if err := c.run(ctx, c.APIServer); err != nil {
		return nil, err
	}
	if o.MetricsServer {
		if err := c.create(ctx, "metrics-server.yaml"); err != nil {
			return nil, err
		}
	}
	var rest []*Process
	if !o.StoreOnly {
		rest = append(rest, c.kwok(), c.Prometheus)
	}
	if o.MetricsServer {
		rest = append(rest, c.metricsServer())
	}
	if c.Scheduler.Process != nil {
		rest = append(rest, c.Scheduler.Process)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, p := range rest {
		group.Go(func() error { return c.run(groupCtx, p) })
	}
	return c, group.Wait()
}

// SchedulerConfiguration is the file of the scheduler's configuration; see Options.Scheduler.
func (c *Cluster) SchedulerConfiguration() string { return c.path(schedulerConfig) }

// Reconfigure restarts the scheduler with another configuration; see Options.Scheduler.
func (c *Cluster) Reconfigure(ctx context.Context, configuration string) error {
	if err := c.Scheduler.Stop(); err != nil {
		return err
	}
	if err := c.render(schedulerConfig, configuration, c.Endpoints); err != nil {
		return err
	}
	return c.Scheduler.Start(ctx)
}

// Stop ends the cluster, removes its files and returns when nothing is left. It may be called again.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		processes := c.started()
		// All others end before the API server and etcd: they would log errors about servers that are gone.
		slices.Reverse(processes)
		for len(processes) > 0 {
			n := max(len(processes)-2, 1)
			var group sync.WaitGroup
			for _, p := range processes[:n] {
				group.Go(p.close)
			}
			group.Wait()
			processes = processes[n:]
		}
		c.stopErr = os.RemoveAll(c.dir)
	})
	return c.stopErr
}

// Failed returns an error if a part of the cluster has ended without being stopped.
func (c *Cluster) Failed() error {
	var errs []error
	for _, p := range c.started() {
		errs = append(errs, p.Failed())
	}
	return errors.Join(errs...)
}

func (c *Cluster) started() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.processes)
}

// prepare chooses ports and writes the files that the parts need.
func (c *Cluster) prepare() (err error) {
	p := &c.ports
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.kwok, &p.prometheus, &p.metricsServer, &p.scheduler} {
		if *port, err = FreePort(); err != nil {
			return err
		}
	}
	if err := c.issueCertificates(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if c.admin, err = clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig); err != nil {
		return err
	}
	// No limit: the API server has no other clients to protect.
	c.admin.QPS = -1
	if c.Client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return err
	}
	c.Endpoints = Endpoints{
		Kubeconfig: c.path("scheduler.kubeconfig"), Prometheus: "http://" + address(c.ports.prometheus),
		Etcd: "http://" + address(c.ports.etcd),
	}

	configs, err := fs.Sub(configFiles, "config")
	if err != nil {
		return err
	}
	if err := os.CopyFS(c.dir, configs); err != nil {
		return err
	}
	for _, name := range []string{"prometheus.yaml", "metrics-server.yaml"} {
		text, readErr := fs.ReadFile(configs, name)
		if err := errors.Join(readErr, c.render(name, string(text), map[string]any{
			"KWOK": address(c.ports.kwok), "Interval": cmp.Or(c.options.ScrapeInterval, time.Second), "MetricsServer": c.ports.metricsServer,
		})); err != nil {
			return err
		}
	}
	c.Etcd, c.APIServer, c.Prometheus = c.etcd(), c.apiServer(), c.prometheusAt("prometheus", "prometheus.yaml", c.ports.prometheus)
	if c.options.Scheduler != "" {
		if err := c.render(schedulerConfig, c.options.Scheduler, c.Endpoints); err != nil {
			return err
		}
		c.Scheduler = c.schedulerAt(c.options.scheduler(), schedulerConfig, c.ports.scheduler, c.options.SchedulerArgs...)
	}
	return nil
}

func (c *Cluster) issueCertificates() (err error) {
	if c.authority, err = newAuthority(c.path("pki")); err != nil {
		return err
	}
	server := "https://" + address(c.ports.apiServer)
	c.AdminKubeconfig = c.path("admin.kubeconfig")
	return errors.Join(
		c.authority.issue("apiserver", "kube-apiserver"),
		c.authority.issue(frontProxyUser, frontProxyUser),
		c.authority.writeKubeconfig(c.AdminKubeconfig, server, "admin", "admin", "system:masters"),
		// This user has the permissions of Kubernetes' schedulers only.
		c.authority.writeKubeconfig(c.path("scheduler.kubeconfig"), server, "scheduler", schedulerUser),
	)
}

// run starts a process, which Stop will end.
func (c *Cluster) run(ctx context.Context, p *Process) error {
	c.mu.Lock()
	c.processes = append(c.processes, p)
	c.mu.Unlock()
	return p.Start(ctx)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) render(name, text string, data any) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("filling in %s: %w", name, err)
	}
	return os.WriteFile(c.path(name), b.Bytes(), 0o600)
}
