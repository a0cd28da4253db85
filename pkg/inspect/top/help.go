package top

const topNodesHelp = `Shows each node as the scheduler sees it now: measured load, pending usage, requests, and the load line. Usage
is pending until the measurement covers it.

The line is the threshold of the plugin or of the node's own annotation. A plugin that scores may have a target in its
place: the utilization that it prefers, and no limit. --plugin chooses another plugin.

  CPU(%), MEM(%)  measured load, in percent of capacity; in brackets if it has expired
  -PENDING        expected usage that is not measured yet, in percent of capacity
  -REQUESTED      in percent of allocatable
  -EFFECTIVE      utilization that is compared with the line or target, where it exceeds measured and pending load
  -LINE, -TARGET  in percent of capacity; * if the node's annotation sets the line
  AGE             time since the end of the measurement's window
  STATE           Fresh, Expired or Absent, as cpu/memory if they differ. Requests replace load that is not Fresh.

For a live view of all nodes, with filters and the pods of each, use kubectl plimsoll ui.

--sort (or --sort-by) is line (the default: nodes above the load line, then those closest to it), cpu or memory
(effective utilization), or name. For other orders, sort the JSON.`

const topNodesExamples = `  # All nodes, closest to their load line first
  kubectl plimsoll top

  # Two nodes, and those of a zone
  kubectl plimsoll top nodes worker-1 worker-2
  kubectl plimsoll top nodes -l topology.kubernetes.io/zone=a --sort cpu

  # Nodes above their line
  kubectl plimsoll top -o json | jq '.nodes[] | select(.cpu.aboveLine or .memory.aboveLine) | .name'

  # Pods of a node, with their expected usage
  kubectl plimsoll top pods worker-1`

const topPodsHelp = `Shows the expected usage of pods, and the share of it that the measurement covers. The rest is pending. A mean
over five minutes covers a fifth of a pod that has run for one. Of a node, TOTAL is what "top nodes" shows as pending.

Without NODE, the pods of all nodes are shown: those with the most pending usage first, then the largest, by their share of
their node. -n selects a namespace.

If the load of a resource is not fresh, requests are shown instead of expected usage.`

const topPodsExamples = `  # Pods with the most pending usage, and the largest of the others
  kubectl plimsoll top pods

  # Those of a namespace, and of a node
  kubectl plimsoll top pods -n shop
  kubectl plimsoll top pods worker-1`
