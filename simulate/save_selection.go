package simulate

import (
	"encoding/json"
	"strconv"
	"time"

	"remshell/idset"
	"remshell/job"
	"remshell/plan/nodeset"
)

// This file writes the options that choose nodes, and the needs of ranks on their nodes.

// appOptions sets the options that say which resources of a node the ranks of an app context need.
func appOptions(s job.RankNeeds, o *selectionOptions) {
	o.Shape, o.PerNUMA, o.NUMANodes = numberUnlessZero(s.ExactPerNode), numberUnlessZero(s.NUMA.PerNUMA), numberUnlessZero(s.NUMA.FirstNodes)
	if s.NUMA.NUMANodes != nil {
		o.NUMAList = nullIfZero(scalarText(idset.Text(s.NUMA.NUMANodes)))
	}
	if s.NUMA.StrictMemory {
		o.StrictMem = &s.NUMA.StrictMemory
	}
	switch s.HWThreads {
	case 0:
	case job.AllThreads:
		o.HWThreads = number[scalarText](0)
	default:
		o.HWThreads = number[scalarText](s.HWThreads)
	}
}

// hugeWords maps each kind of request for huge pages to its suffix in --mem-per-rank, as in 3Ghs.
var hugeWords = map[job.HugePageRequest]string{job.HugePagesPreferred: "h", job.HugePagesRequired: "hs"}

// jobOptions sets the options of the whole job. The effective node-set request becomes an option of the job,
// whatever its source was.
func jobOptions(c job.NodeSelection, o *selectionOptions) {
	if c.Balance {
		o.NodeAlloc = nullIfZero("MAXBALANCE")
	}
	if s := c.NodeSet; s.Policy != "" {
		o.Set, o.Priority = nullIfZero(s.Request.String()), nullIfZero(string(s.Priority))
		o.Optional = nullIfZero(map[bool]scalarOrBool{true: "yes", false: "no"}[s.Optional])
		o.Tolerance = nullIfZero(scalarOrBool(s.Tolerance.String()))
		o.Delay = number[scalarOrBool](int((s.Delay + time.Second - 1) / time.Second))
		words := s.Plus.String()
		o.Plus = &words
	}
	o.Class, o.Contiguous, o.Reserve = nullIfZero(c.Class), nullIfZero(string(c.Contiguous)), numberUnlessZero(c.Reserve)
	if c.Memory > 0 {
		o.MemPerRank = nullIfZero(scalarText(strconv.FormatInt(c.Memory>>10, 10) + "K" + hugeWords[c.HugePages]))
	}
}

// rulesOf returns the rules of the cluster that apply to the job. In these rules the class of the job is open to
// all users, since access was already checked.
func rulesOf(c job.NodeSelection) (r selectionRules) {
	if c.Class != "" {
		r.Classes = []classRules{{Name: c.Class}}
	}
	if c.NodeSet.Policy != "" {
		r.Set = &setRules{MaxDelay: number[scalarText](int(c.NodeSet.Delay/time.Second) + 1)} // the delay has been limited already
	}
	for _, a := range c.Affinity {
		r.Affinity = append(r.Affinity, affinityRule{Nodes: a.Nodes, Feature: a.Feature, Value: a.Value})
	}
	r.Domain = c.Domain
	for _, region := range c.Regions {
		rule := regionRules{Name: region.Name, Signature: region.Signature, Nodes: region.Nodes,
			Users: region.Gate.Users, Groups: region.Gate.Groups, Classes: region.Gate.Classes}
		if width := region.Gate.Width; width != nil && *width == job.AutoWidth {
			rule.Width = nullIfZero[scalarText]("auto")
		} else if width != nil {
			rule.Width = number[scalarText](*width)
		}
		r.Regions = append(r.Regions, rule)
	}
	return r
}

// attributesOf returns the node's effective attributes, as the state file contains them.
func attributesOf(n *job.Node) (all map[string]json.RawMessage) {
	add := func(name string) {
		var value json.RawMessage
		switch v := n.Attribute(name); {
		case v.Labels != nil:
			value, _ = json.Marshal(v.Labels)
		case v.Number > 0:
			value = json.RawMessage(v.Number.String())
		default:
			return
		}
		if all == nil {
			all = make(map[string]json.RawMessage)
		}
		all[name] = value
	}
	for _, name := range []string{nodeset.ProcSpeed, nodeset.Network, nodeset.NetSpeed, nodeset.Arch, nodeset.CPUModel, nodeset.GPUModel} {
		add(name)
	}
	for name := range n.Attributes {
		add(name)
	}
	return all
}

// numberUnlessZero returns n as a scalar value for the state file, or nil if n is 0.
func numberUnlessZero(n int) *scalarText {
	if n == 0 {
		return nil
	}
	return number[scalarText](n)
}
