package reserve

import (
	"fmt"
	"maps"
	"slices"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
	"remshell/usererr"
)

// This file confines the job to the CPUs and GPUs that the batch system's host list grants it on a node.
// Nothing else does so for a helper that ssh has started: it may use the whole node (rule RM-6).
//
//	probe --confineProbe--> granted CPUs and GPUs --> snapshot --> plan.Make

// confineToGrant removes CPUs and GPUs that the batch system has not granted to the job from the probe results of the
// candidate hosts. A host without any granted CPU cannot be used.
func (r *reservation) confineToGrant() {
	lines := make(map[string][]string) // hosts, by the line that is logged about them
	made := make(map[grantKey]pin.Topology)
	for _, n := range r.hosts {
		if n.lost != nil {
			continue
		}
		all := len(n.probe.Topology.UsableCPUs())
		probe, err := confineProbe(n.probe, n.def, made)
		if err != nil {
			n.lost = nothingGrantedError{&usererr.Error{Text: "config: " + err.Error(), Remedy: "choose hosts with -host, or let mpiexec ignore the job of the batch system with -rmk none"}}
			go n.Close()
			continue
		}
		if granted := len(probe.Topology.UsableCPUs()); granted < all {
			line := fmt.Sprintf("the batch system grants the job %d of %s (%s)", granted, text.Count(all, "CPU"), n.def.GrantedCPUs.From)
			lines[line] = append(lines[line], n.def.Name)
		}
		n.probe = probe
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		r.env.Log.Info().Msg(hostlist.Fold(lines[line]) + ": " + line)
	}
}

// A nothingGrantedError says that a host is not used because the batch system has granted none of its CPUs.
type nothingGrantedError struct{ error }

// A grantKey is a key of the cache of confineProbe. Nodes that have the same topology and the same granted CPUs share
// one restricted topology.
type grantKey struct {
	of *pin.Core
	pin.CPUGrant
}

// confineProbe removes the CPUs and GPUs that the batch system has not granted from a node's probe. cache contains
// topologies that were restricted earlier. If the node already withholds GPUs, confineProbe keeps all others, because
// their numbers then differ from those in the grant.
func confineProbe(p job.Probe, def job.NodeDef, cache map[grantKey]pin.Topology) (job.Probe, error) {
	if def.GrantedCPUs.IsGiven() && len(p.Topology.Cores) > 0 {
		key := grantKey{&p.Topology.Cores[0], def.GrantedCPUs}
		if _, known := cache[key]; !known {
			left, err := p.Topology.RestrictTo(def.GrantedCPUs)
			if err != nil {
				return p, err
			}
			cache[key] = left
		}
		p.Topology = cache[key]
	}
	if p.WithheldGPUs == 0 {
		left := gpu.WithIndices(p.GPUs, def.GrantedGPUs)
		p.GPUs, p.WithheldGPUs = left, len(p.GPUs)-len(left)
	}
	return p, nil
}
