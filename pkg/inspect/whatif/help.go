package whatif

const whatIfHelp = `Places pods in a copy of the cluster in memory, by the scheduler's own code and configuration. Shows where
they go, the load of each node, and the nodes that cross their load line. Says why other pods do not fit.
Nothing is written to the cluster.

You can combine changes. They are made in this order:
  1. --add-nodes adds copies of a node, with its labels, taints, DaemonSet pods and static pods.
  2. --drain cordons nodes and evicts their pods. --evict-all-in evicts all pods of namespaces. DaemonSet pods
     and static pods stay. PodDisruptionBudgets are reported, and delay no eviction.
  3. Pods are placed one after the other, higher priority first. Of one priority, evicted ones come first, as
     their owners recreate them, then waiting ones (--pending), then those of -f. -f takes Pods, Deployments, ReplicaSets,
     ReplicationControllers, StatefulSets, Jobs, CronJobs, Lists of them, and several documents. Its pods are placed
     beside running pods. Preempted pods are placed again. --fewer removes running pods of the workload,
     in the order of its controller.

The result is what the scheduler would do if all of this happened now, at once:
  - No time passes. The expected usage of a placed pod is pending on its node.
  - The usage of evicted pods is subtracted from the measured load of their nodes, as after a whole window. It
    is measured by Prometheus or metrics-server, else estimated. The scheduler itself counts it until the window
    has passed. Quantiles (statistic P95 or Max) stay.
  - New nodes count as measured and idle, plus the expected usage of DaemonSet pods and static pods. The
    scheduler itself uses their requests until they are measured.
  - Pods of a scheduler without a profile are placed as the stock scheduler does. --scheduler-name places all pods
    by one profile: those of -f, evicted, waiting and preempted.
  - Webhooks and quotas are not called. No volumes are provisioned, and no nodes except those of --add-nodes.

CPU-LINE and MEM-LINE are the load line or target of the profile that places the pods.

Exit codes: 0 all pods fit, 1 some do not or are lost, 2 unknown. Evicted pods without a
controller are lost.`

const whatIfExamples = `  # Do 40 replicas fit, and where?
  kubectl plimsoll what-if -f deployment.yaml --replicas 40

  # Which nodes get room by 10 pods fewer?
  kubectl plimsoll what-if -f deployment.yaml --fewer 10

  # Can these nodes be drained, or removed?
  kubectl plimsoll what-if --drain worker-3,worker-4

  # How many of the waiting pods would two more nodes take?
  kubectl plimsoll what-if --add-nodes 2 --like worker-1

  # The same pods by a new configuration
  kubectl plimsoll what-if -f deployment.yaml --replicas 40 --config new.yaml

  # Where would the pods of a namespace go, if this profile placed them in place of their scheduler?
  kubectl plimsoll what-if --evict-all-in shop --scheduler-name plimsoll

  # Where would the pods of a namespace go by today's load?
  kubectl plimsoll what-if --evict-all-in batch -o json | jq '.outcomes[0].placements'`
