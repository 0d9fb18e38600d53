package simulate

import (
	"errors"
	"time"

	"remshell/job"
)

// gangs describes how gangs take turns on the CPUs of a node.
type gangs struct {
	Parties int       `json:"parties"`
	Slice   float64   `json:"slice_seconds"`
	Memory  int64     `json:"memory,omitempty"` // bytes that they may need
	Jobs    []gangJob `json:"jobs,omitempty"`
}

// A gangJob is a gang with the CPUs that it has claimed on a node.
type gangJob struct {
	job.GangJob
	CPUs []int `json:"cpus"`
}

// read stores in n how gangs share the node. It does nothing if g is nil.
func (g *gangs) read(n *job.Node) error {
	if g == nil {
		return nil
	}
	n.Gang, n.GangMemory = job.GangTerms{Parties: g.Parties, Slice: time.Duration(g.Slice * float64(time.Second))}, g.Memory
	for _, j := range g.Jobs {
		gang := job.Gang{Party: j.Party, GangTerms: n.Gang, Memory: g.Memory}
		if !gang.IsValid() {
			return errors.New("gangs has a party, a slice or a size that no node can have")
		}
		n.GangCPUs = append(n.GangCPUs, job.GangCPUs{GangJob: j.GangJob, CPUs: j.CPUs})
	}
	if !n.Gang.IsValid() {
		return errors.New("gangs has parties or a slice that no node can have")
	}
	return nil
}

// gangsOf returns how gangs share a node, or nil if this is not known.
func gangsOf(n *job.Node) *gangs {
	if n.Gang == (job.GangTerms{}) {
		return nil
	}
	g := &gangs{Parties: n.Gang.Parties, Slice: n.Gang.Slice.Seconds(), Memory: n.GangMemory}
	for _, c := range n.GangCPUs {
		g.Jobs = append(g.Jobs, gangJob{c.GangJob, c.CPUs})
	}
	return g
}
