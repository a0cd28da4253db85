package e2e

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// container is a program that runs as a kubelet would run it: as an arbitrary user without capabilities. It has its own environment
// and file system, in which only /tmp is writable. It shares the network of this machine.
type container struct {
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

// runContainer starts a container and waits until it can be used. The container ends with the cluster.
func (e environment) runContainer(c container) (*cluster.Process, error) {
	e.t.Helper()
	admin := check.Value(clientcmd.BuildConfigFromFlags("", e.AdminKubeconfig))(e.t)
	server := check.Value(url.Parse(admin.Host))(e.t)
	files := map[string]string{"/etc/hosts": "127.0.0.1 localhost " + strings.Join(c.Hosts, " ") + "\n"}
	if c.ServiceAccount != "" {
		files[accountDir+"/token"] = check.Value(e.Token(e.ctx, c.Namespace, c.ServiceAccount))(e.t)
		files[accountDir+"/ca.crt"], files[accountDir+"/namespace"] = string(admin.CAData), c.Namespace
	}
	maps.Copy(files, c.Files)
	root := filepath.Join(filepath.Dir(e.AdminKubeconfig), c.Name)
	for name, content := range files {
		name = filepath.Join(root, name)
		e.must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o444),
			os.Chtimes(name, time.Time{}, c.Mounted)))
	}
	program := filepath.Join(binDir, cmp.Or(c.Program, path.Base(c.Command[0])))
	e.must(place(program, filepath.Join(root, c.Command[0])))
	e.must(chmodFolders(root, 0o555))
	e.t.Cleanup(func() { e.must(chmodFolders(root, 0o755)) }) // so that they can be removed
	tmp := filepath.Join(root, "tmp")
	// Chmod, because the umask limits the mode that Mkdir sets.
	e.must(errors.Join(os.Chmod(root, 0o755), os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777), os.Chmod(root, 0o555)))
	env := append([]string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}, c.Env...)
	return e.RunConfined(e.ctx, c.Name, root, env, c.Ready, c.Command...)
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

func chmodFolders(dir string, mode fs.FileMode) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	})
}
