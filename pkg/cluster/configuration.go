package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

// ConfigurationOptions choose a configuration: at most one is set. Without any, it is the configuration of the scheduler that runs
// in the cluster.
type ConfigurationOptions struct {
	// File is a file on this machine.
	File string
	// Scheduler is "NAMESPACE/NAME" of the scheduler's Deployment.
	Scheduler string
}

// Flags returns the flags that set the options, as arguments.
func (o ConfigurationOptions) Flags() []string {
	return flagsWith([2]string{"--config", o.File}, [2]string{"--scheduler", o.Scheduler})
}

// OptionError is an error in an option. Its text names the flag.
type OptionError struct{ error }

// OptionErrorf returns an OptionError.
func OptionErrorf(format string, args ...any) error { return &OptionError{fmt.Errorf(format, args...)} }

// Unwrap returns the error without this type.
func (e *OptionError) Unwrap() error { return e.error }

// Configuration is a KubeSchedulerConfiguration and its origin.
type Configuration struct {
	// Origin is one line for the user, such as "ConfigMap plimsoll-system/plimsoll, of Deployment plimsoll-system/plimsoll".
	Origin string
	// Changed is when the file was last written; zero if unknown.
	Changed time.Time
	// Content is the file as it was written. Decoded has defaults, and is nil if Err is not.
	Content []byte
	Decoded *schedulerconfig.KubeSchedulerConfiguration
	// Err says why the content cannot be decoded or is invalid; see configlint.
	Err error
	// Findings are configlint's findings in a configuration that it can decode.
	Findings []finding.Finding
	// Workload is the scheduler that runs with the configuration; nil if unknown.
	Workload *Workload
	// filesAreHere reports whether its files are on this file system, in a container of the scheduler's pod.
	filesAreHere bool
}

// ProfileNames returns the schedulerNames of the profiles.
func (c *Configuration) ProfileNames() (names []string) {
	for i := range c.Decoded.Profiles {
		names = append(names, c.Decoded.Profiles[i].SchedulerName)
	}
	return names
}

// Configuration finds and decodes the configuration. It fails if there is none, or several, or if it cannot be read; the error
// says what to write. It is an *OptionError if the options are wrong.
func (c *Connection) Configuration(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	found, err := c.find(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(found.Content) > boundedfile.MaxConfigurationBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", found.Origin, boundedfile.MaxConfigurationBytes)
	}
	found.Err = found.decode()
	return found, nil
}

// ValidConfiguration is Configuration that fails if Err is set.
func (c *Connection) ValidConfiguration(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	found, err := c.Configuration(ctx, o)
	if err == nil && found.Err != nil {
		err = fmt.Errorf("%s: %w", found.Origin, found.Err)
	}
	return found, err
}

// decode sets Findings and, if there is no error, Decoded.
func (c *Configuration) decode() error {
	lint := plugins.LintOptions()
	lint.FilesAreElsewhere = !c.filesAreHere
	if c.Workload != nil {
		lint.Flags = c.Workload.Flags()
		lint.Getenv = func(variable string) string { return c.Workload.Env[variable] }
	}
	if c.filesAreHere {
		lint.Getenv = os.Getenv
	}
	decoded, findings, err := configlint.Check(c.Content, lint)
	if err != nil {
		return err
	}
	c.Findings = findings
	if err := schedulervalidation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return err
	}
	c.Decoded = decoded
	return nil
}

func (c *Connection) find(ctx context.Context, o ConfigurationOptions) (*Configuration, error) {
	switch {
	case o.File != "" && o.Scheduler != "":
		return nil, OptionErrorf("--config and --scheduler: write one of them")
	case o.Scheduler != "":
		return c.named(ctx, o.Scheduler)
	case o.File != "":
		content, err := boundedfile.ReadConfiguration(o.File)
		if err != nil {
			return nil, OptionErrorf("--config: %w", err)
		}
		return &Configuration{Origin: "file " + o.File, Content: content}, nil
	}
	own := c.own(ctx)
	if own == nil {
		return c.discover(ctx)
	}
	file := own.configFile()
	content, err := boundedfile.ReadConfiguration(file)
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler of this pod: %w", err)
	}
	found := &Configuration{
		Origin:  fmt.Sprintf("file %s, of the scheduler of this pod", file),
		Content: content, Workload: own, filesAreHere: true,
	}
	if info, err := os.Stat(file); err == nil {
		found.Changed = info.ModTime() // the kubelet writes the file when the ConfigMap changes
	}
	return found, nil
}

// readConfigMap returns the ConfigMap's key. The error has advice for users who lack the permission.
func (c *Connection) readConfigMap(ctx context.Context, namespace, name, key string) (*Configuration, error) {
	object, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; write --config FILE, or grant it: %s", err, grant(&Permission{
				Resource: "configmaps", Verbs: []string{"get"}, Namespace: namespace, Name: name,
			}, c.User(ctx)).For(c.Chosen))
		}
		return nil, err
	}
	content, ok := object.Data[key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no key %q; its keys are %q", namespace, name, key,
			slices.Sorted(maps.Keys(object.Data)))
	}
	return &Configuration{
		Origin:  fmt.Sprintf("ConfigMap %s/%s", namespace, name),
		Content: []byte(content), Changed: dataChanged(object),
	}, nil
}

// dataChanged returns the last write by a field manager that owns data of the ConfigMap.
func dataChanged(object *corev1.ConfigMap) (at time.Time) {
	for _, owner := range object.ManagedFields {
		fields, err := json.Marshal(owner.FieldsV1)
		if err == nil && bytes.Contains(fields, []byte(`"f:data"`)) && owner.Time != nil && owner.Time.After(at) {
			at = owner.Time.Time
		}
	}
	return at
}

// configMapOf returns the ConfigMap and the key that the pod mounts as the file that the scheduler's --config names.
func configMapOf(spec corev1.PodSpec, w *Workload) (name, key string, err error) {
	if w.configFile() == "" {
		return "", "", fmt.Errorf("%s runs without --config; write --config FILE", w)
	}
	file, mount := path.Clean(w.configFile()), corev1.VolumeMount{}
	container := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == w.Container })
	for _, m := range spec.Containers[container].VolumeMounts {
		m.MountPath = path.Clean(m.MountPath)
		if (file == m.MountPath || strings.HasPrefix(file, m.MountPath+"/")) && len(m.MountPath) > len(mount.MountPath) {
			mount = m // the deepest
		}
	}
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && v.ConfigMap != nil })
	if i < 0 {
		return "", "", fmt.Errorf("%s reads %s, which no ConfigMap has; write --config with a copy of that file", w, file)
	}
	volume := spec.Volumes[i].ConfigMap
	key = strings.TrimPrefix(path.Join(mount.SubPath, strings.TrimPrefix(file, mount.MountPath)), "/")
	for _, item := range volume.Items {
		if path.Clean(item.Path) == key {
			return volume.Name, item.Key, nil
		}
	}
	return volume.Name, key, nil
}
