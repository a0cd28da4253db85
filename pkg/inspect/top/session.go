package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Session reads the load of a cluster repeatedly. It is used by one goroutine at a time.
type Session struct {
	configuration *cluster.Configuration
	cluster       *cluster.Cluster
	reader        *Reader
	objects       *Objects
	// follower has the changes of objects that are not simulated yet.
	follower *sim.Follower
	clock    clock.PassiveClock
	// find reads the configuration. outdated says why the session's configuration is not the present one, or may not be.
	find     func(context.Context) (*cluster.Configuration, error)
	checked  time.Time
	outdated error
	// unanswered is the error of the last question to the API server.
	unanswered error
	// refreshed is when load was last read, and learned when statistics of workloads were.
	refreshed, learned time.Time
	client             kubernetes.Interface
	// origins are those of moved pods, read by readOrigins at originsRead.
	readOrigins cluster.ReadOrigins
	origins     map[types.UID]*cluster.Origin
	originsRead time.Time
	// groups are the pod groups of waiting pods, read at groupsRead.
	groups     cluster.PodGroups
	groupsRead time.Time
}

// Open reads the load of a cluster for the first time. Watches and goroutines end with ctx.
func Open(
	ctx context.Context, c *cluster.Connection, configuration cluster.ConfigurationOptions, source cluster.SourceOptions, o Options,
) (*Session, error) {
	s := &Session{clock: clock.RealClock{}, client: c.Client, readOrigins: o.Origins}
	s.find = func(ctx context.Context) (*cluster.Configuration, error) {
		return c.ValidConfiguration(ctx, configuration)
	}
	found, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	if s.objects, err = Watch(ctx, c, s.clock); err != nil {
		return nil, err
	}
	objects, follower := s.objects.follow()
	s.configuration, s.follower = found, follower
	s.cluster, err = c.Open(ctx, cluster.Options{
		Configuration: found.Decoded, Workload: found.Workload, Objects: objects, Source: source, IgnoreExtenders: true,
	})
	if err == nil {
		s.reader, err = New(s.cluster.Scheduler, found.Decoded.Profiles, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found.Origin, err)
	}
	now := s.clock.Now()
	s.refreshed, s.learned, s.checked = now, now, now
	return s, nil
}

// Held returns the present objects of a kind that the session watches, sorted by name; nil of other kinds. It is safe for
// concurrent use.
func (s *Session) Held(kind string) []runtime.Object {
	switch kind {
	case "Node":
		return sorted(s.objects.nodes)
	case "Pod":
		return sorted(s.objects.pods)
	}
	return nil
}

// Update applies changes of objects, and reads load that is due.
func (s *Session) Update(ctx context.Context) error {
	s.compareConfiguration(ctx)
	if err := s.follower.Apply(s.cluster.Scheduler); err != nil {
		return err
	}
	switch now := s.clock.Now(); {
	case now.Sub(s.learned) >= cluster.StatisticsInterval:
		s.cluster.Refresh(ctx)
		s.refreshed, s.learned = now, now
	case now.Sub(s.refreshed) >= s.reader.RefreshInterval():
		s.cluster.RefreshLoad(ctx)
		s.refreshed = now
	}
	return nil
}

// Lend applies changes of objects, and calls use with the simulated cluster. use must leave it unchanged. Unless the session
// simulates exactly the given configuration, Lend returns false and does not call use.
func (s *Session) Lend(of *cluster.Configuration, use func(*cluster.Cluster) error) (lent bool, err error) {
	if len(of.Decoded.Extenders) > 0 || !apiequality.Semantic.DeepEqual(of.Decoded, s.configuration.Decoded) {
		s.checked = time.Time{} // Update tells
		return false, nil
	}
	if err := s.follower.Apply(s.cluster.Scheduler); err != nil {
		return false, err
	}
	return true, use(s.cluster)
}

// compareConfiguration reads now and then whether the configuration is still that of the session.
func (s *Session) compareConfiguration(ctx context.Context) {
	s.ifDue(ctx, &s.checked, 30*time.Second, func(ctx context.Context) {
		found, err := s.find(ctx)
		if err == nil && !apiequality.Semantic.DeepEqual(found.Decoded, s.configuration.Decoded) {
			err = errors.New("it has changed since; start kubectl plimsoll again")
		}
		s.outdated = err
		_, s.unanswered = s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}) // watches retry silently
	})
}

// ifDue calls read, and waits for it a few seconds, unless the last call is more recent than the interval.
func (s *Session) ifDue(ctx context.Context, last *time.Time, interval time.Duration, read func(context.Context)) {
	if now := s.clock.Now(); now.Sub(*last) >= interval {
		*last = now
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		read(ctx)
	}
}

// problems say why the view may be stale or incomplete.
func (s *Session) problems() (lines []string) {
	lines = s.cluster.Problems()
	if err := cmp.Or(s.objects.Err(), s.unanswered); err != nil {
		lines = append(lines, "Cannot read the API server: "+err.Error())
	} else if s.outdated != nil {
		lines = append(lines, "These figures are of the configuration as it was at the start: "+s.outdated.Error())
	}
	return lines
}

// Nodes returns the load of the selected nodes, in the order of the selection.
func (s *Session) Nodes(ctx context.Context, selected Selection) (*Nodes, error) {
	s.refreshGroups(ctx)
	nodes, err := s.reader.Nodes(ctx, selected)
	if err != nil {
		return nil, err
	}
	s.complete(&nodes.View)
	s.addSources(nodes.Nodes)
	Sort(nodes.Nodes, selected.Order)
	return nodes, nil
}

// Pods returns the pods of the named node.
func (s *Session) Pods(ctx context.Context, node string) (*Pods, error) {
	return s.PodsOf(ctx, []string{node}, "")
}

func (s *Session) PodsOf(ctx context.Context, nodes []string, namespace string) (*Pods, error) {
	pods, err := s.reader.Pods(ctx, nodes, namespace)
	if err != nil {
		return nil, err
	}
	s.refreshGroups(ctx)
	for _, pod := range s.Waiting() {
		if len(nodes) == 0 && (namespace == "" || pod.Namespace == namespace) {
			pods.Waiting = append(pods.Waiting, pod)
		}
	}
	s.complete(&pods.View)
	s.refreshOrigins(ctx)
	for i := range pods.Pods {
		pods.Pods[i].Replaces = s.origins[pods.Pods[i].uid]
	}
	return pods, nil
}

// refreshOrigins reads now and then which pods were moved. If a read fails or takes long, the last answer stays.
func (s *Session) refreshOrigins(ctx context.Context) {
	s.ifDue(ctx, &s.originsRead, 30*time.Second, func(ctx context.Context) {
		if origins, err := s.readOrigins.Of(ctx, s.client); err == nil {
			s.origins = origins
		}
	})
}

// refreshGroups reads the groups of waiting pods now and then. If a read fails, the last answer stays.
func (s *Session) refreshGroups(ctx context.Context) {
	if !s.configuration.Workload.PlacesGroups() {
		return
	}
	s.ifDue(ctx, &s.groupsRead, 10*time.Second, func(ctx context.Context) {
		if groups, err := cluster.ReadPodGroups(ctx, s.client, s.objects.waitingPods()); err == nil || s.groups == nil {
			s.groups = groups
		}
	})
}

// addSources adds what the plugin's source says of nodes: that target sets differ, or that another dialect reads the node.
func (s *Session) addSources(rows []*Row) {
	nodes := map[string]*Row{}
	for _, row := range rows {
		nodes[row.Name] = row
	}
	for _, status := range s.cluster.Sources() {
		if !slices.Contains(status.Readers, s.reader.plugin.Reader()) {
			continue
		}
		for _, c := range status.Contested {
			if row := nodes[c.Node]; row != nil {
				row.Contested = &c
			}
		}
		for dialect, names := range status.Further {
			for _, name := range names {
				if row := nodes[name]; row != nil {
					row.Dialect = dialect
				}
			}
		}
	}
}

func (s *Session) complete(v *View) {
	v.Configuration, v.Problems = s.configuration.Origin, s.problems()
}

// ShowInterval is the time between two views of changed pods and nodes.
const ShowInterval = 2 * time.Second
