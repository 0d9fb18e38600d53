package simulate

import (
	"errors"
	"time"

	"remshell/job"
)

// gangs describes how gangs take turns on the CPUs of a node.
type gangs struct {
	Parties int            `json:"parties"`
	Slice   float64        `json:"slice_seconds"`
	Memory  int64          `json:"memory,omitempty"` // bytes that they may need
	Jobs    []job.GangCPUs `json:"jobs,omitempty"`
}

// read stores in n how gangs share the node. It does nothing if g is nil.
func (g *gangs) read(n *job.Node) error {
	if g == nil {
		return nil
	}
	n.Gang = job.GangTerms{Parties: g.Parties, Slice: time.Duration(g.Slice * float64(time.Second))}
	n.GangMemory, n.GangCPUs = g.Memory, g.Jobs
	valid := n.Gang.IsValid()
	for _, j := range g.Jobs {
		gang := job.Gang{Party: j.Party, GangTerms: n.Gang, Memory: g.Memory}
		valid = valid && gang.IsValid()
	}
	if !valid {
		return errors.New("gangs: parties, slice_seconds, memory or a party has an impossible value")
	}
	return nil
}

// gangsOf returns how gangs share a node, or nil if this is not known.
func gangsOf(n *job.Node) *gangs {
	if n.Gang == (job.GangTerms{}) {
		return nil
	}
	return &gangs{Parties: n.Gang.Parties, Slice: n.Gang.Slice.Seconds(), Memory: n.GangMemory, Jobs: n.GangCPUs}
}
