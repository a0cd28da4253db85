package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// containerUser and containerGroup are as on OpenShift: an arbitrary user ID, in root's group.
	containerUser  = 1000650000
	containerGroup = 0
	accountDir     = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// Container is a program that runs as a kubelet would run it: as an arbitrary user without capabilities. It has its own environment
// and file system, in which only /tmp is writable. It shares the network of this machine.
type Container struct {
	// Name is the base name of the container's log and root folder.
	Name string
	// Command is the command line.
	Command []string
	// Program is the name of the program in BinDir; empty means the base name of Command[0].
	Program string
	// Env holds NAME=value pairs, beside the variables that name the API server.
	Env []string
	// Namespace and ServiceAccount name the account whose token is mounted. Both are empty for a static pod, which has none.
	Namespace, ServiceAccount string
	// Files holds the content of files by their absolute path in the container.
	Files map[string]string
	// Mounted is when Files were written; zero is now.
	Mounted time.Time
	// Hosts are host names that resolve to this machine.
	Hosts []string
	// Ready is a URL that responds with 200 once the container can be used.
	Ready string
}

// RunContainer starts a container and waits until it can be used. The container ends with the cluster.
func (c *Cluster) RunContainer(ctx context.Context, container Container) (*Process, error) {
	p := c.process(container.Name, respondsOK(container.Ready), container.Command[1:]...)
	p.path, p.root, p.dir = container.Command[0], c.path(container.Name), "/"
	p.env = append(
		[]string{"KUBERNETES_SERVICE_HOST=" + loopback, "KUBERNETES_SERVICE_PORT=" + strconv.Itoa(c.ports.apiServer)},
		container.Env...)
	if err := c.fillRoot(ctx, p.root, container); err != nil {
		return nil, fmt.Errorf("preparing container %s: %w", container.Name, err)
	}
	return p, c.run(ctx, p)
}

func (c *Cluster) fillRoot(ctx context.Context, root string, container Container) error {
	files := map[string]string{"/etc/hosts": loopback + " localhost " + strings.Join(container.Hosts, " ") + "\n"}
	if container.ServiceAccount != "" {
		token, err := c.Token(ctx, container.Namespace, container.ServiceAccount)
		if err != nil {
			return err
		}
		authority, err := os.ReadFile(c.client.certFile(c.client.name))
		if err != nil {
			return err
		}
		files[accountDir+"/token"], files[accountDir+"/ca.crt"] = token, string(authority)
		files[accountDir+"/namespace"] = container.Namespace
	}
	maps.Copy(files, container.Files)
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o444),
			os.Chtimes(name, time.Time{}, container.Mounted)); err != nil {
			return err
		}
	}
	program := filepath.Join(c.options.BinDir, cmp.Or(container.Program, path.Base(container.Command[0])))
	if err := place(program, filepath.Join(root, container.Command[0])); err != nil {
		return err
	}
	if err := chmodFolders(root, 0o555); err != nil {
		return err
	}
	tmp := filepath.Join(root, "tmp")
	// Chmod, because the umask limits the mode that Mkdir sets.
	return errors.Join(os.Chmod(root, 0o755), os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777), os.Chmod(root, 0o555))
}

// Token returns a token of a service account that is valid for an hour.
func (c *Cluster) Token(ctx context.Context, namespace, account string) (string, error) {
	request, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, account, err)
	}
	return request.Status.Token, nil
}

// place links a program to a target path, or copies it there if that is on another file system.
func place(program, target string) (err error) {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if os.Link(program, target) == nil {
		return nil
	}
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// removeFiles removes all files of the cluster, those in read-only folders included.
func (c *Cluster) removeFiles() error {
	return errors.Join(chmodFolders(c.dir, 0o700), os.RemoveAll(c.dir))
}

func chmodFolders(dir string, mode fs.FileMode) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	})
}
