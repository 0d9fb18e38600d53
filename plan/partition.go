package plan

import (
	"slices"

	"remshell/job"
	"remshell/pin"
)

// Partition divides a machine that has several names marked SeparateNode into separate nodes (rule HOST-8). Each node
// gets an identity and a part of the cores, in the order of the names. All names without the mark together form one
// node. If there are fewer cores than nodes, each node gets all cores. Each GPU belongs to exactly one node. A second
// call of Partition changes nothing.
func Partition(nodes []job.Node) {
	machines := make(map[string][]int)
	for i, n := range nodes {
		machines[n.Identity] = append(machines[n.Identity], i)
	}
	for i := range nodes {
		if same := machines[nodes[i].Identity]; nodes[i].SeparateNode && len(same) > 1 && nodes[i].Identity != "" {
			machines[nodes[i].Identity] = nil
			divideMachine(nodes, same)
		}
	}
}

// divideMachine divides the cores and GPUs of one machine among the nodes that its names stand for. indices are the
// indexes of the names in nodes.
func divideMachine(nodes []job.Node, indices []int) {
	parts, joined := 0, -1 // joined is the part of the names without SeparateNode; -1 if there is none yet
	part := make([]int, len(indices))
	for k, i := range indices {
		if !nodes[i].SeparateNode && joined >= 0 {
			part[k] = joined
			continue
		}
		part[k] = parts
		if !nodes[i].SeparateNode {
			joined = parts
		}
		parts++
	}
	cores, gpus := nodes[indices[0]].Topology.Cores, nodes[indices[0]].GPUs
	for k, i := range indices {
		n := &nodes[i]
		if n.SeparateNode {
			n.Identity += "/" + n.Name
		}
		if len(cores) >= parts {
			from, to := part[k]*len(cores)/parts, (part[k]+1)*len(cores)/parts
			n.Topology = pin.Topology{Cores: slices.Clone(cores[from:to])}
		}
		n.GPUs = slices.Clone(gpus[part[k]*len(gpus)/parts : (part[k]+1)*len(gpus)/parts])
	}
}
