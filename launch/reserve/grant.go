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

// This file keeps the job on the CPUs and GPUs that a batch system's list gives it of a node, where
// nothing else does so: a helper that ssh has started may use all of the node (RM-6).
//
//	probe --fenced--> what is granted of it --> snapshot --> plan.Make

// confineToGrant leaves of what candidates have what they were granted. One of which nothing is left cannot
// be used.
func (r *reservation) confineToGrant() {
	said := make(map[string][]string) // hosts, by what is told of them
	made := make(map[grantKey]pin.Topology)
	for _, n := range r.hosts {
		if n.lost != nil {
			continue
		}
		all := len(n.probe.Topology.UsableCPUs())
		probe, err := confineProbe(n.probe, n.def, made)
		if err != nil {
			n.lost = nothingGrantedError{&usererr.Error{Text: "config: " + err.Error(), Remedy: "name hosts with -host, or use the batch system's own starter"}}
			go n.Close()
			continue
		}
		if left := len(probe.Topology.UsableCPUs()); left < all {
			line := fmt.Sprintf("%d of %s are granted by %s", left, text.Count(all, "CPU"), n.def.GrantedCPUs.From)
			said[line] = append(said[line], n.def.Name)
		}
		n.probe = probe
	}
	for _, line := range slices.Sorted(maps.Keys(said)) {
		r.env.Log.Info().Msg(hostlist.Fold(said[line]) + ": " + line)
	}
}

// nothingGrantedError is why a host is given up of which the list leaves nothing.
type nothingGrantedError struct{ error }

// A grantKey is a topology and what is granted of it: the nodes of a cluster are alike, and have
// one in common.
type grantKey struct {
	of *pin.Core
	pin.CPUGrant
}

// confineProbe is what a node was granted of what it has. GPUs of which some are withheld already are left
// as they are: their numbers are not those of the list then.
func confineProbe(p job.Probe, def job.NodeDef, made map[grantKey]pin.Topology) (job.Probe, error) {
	if def.GrantedCPUs.IsGiven() && len(p.Topology.Cores) > 0 {
		shape := grantKey{&p.Topology.Cores[0], def.GrantedCPUs}
		if _, known := made[shape]; !known {
			left, err := p.Topology.RestrictTo(def.GrantedCPUs)
			if err != nil {
				return p, err
			}
			made[shape] = left
		}
		p.Topology = made[shape]
	}
	if p.WithheldGPUs == 0 {
		left := gpu.WithIndices(p.GPUs, def.GrantedGPUs)
		p.GPUs, p.WithheldGPUs = left, len(p.GPUs)-len(left)
	}
	return p, nil
}
