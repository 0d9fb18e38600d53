package plan

import (
	"slices"

	"remshell/job"
	"remshell/pin"
)

// Partition makes nodes of their own of the names that are to be kept apart, although they
// are names of one machine (HOST-8): each has a part of its cores, in the order of the
// names, and an identity. The names that may be joined have one part together. Where
// there are fewer cores than parts, all have all of them; a GPU is never in two parts. Done
// twice it changes nothing.
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

// divideMachine gives the nodes of one machine their parts.
func divideMachine(nodes []job.Node, same []int) {
	parts, joined := 0, -1 // joined is the part of the names that are not apart
	part := make([]int, len(same))
	for k, i := range same {
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
	cores, gpus := nodes[same[0]].Topology.Cores, nodes[same[0]].GPUs
	for k, i := range same {
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
