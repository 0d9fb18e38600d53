package whatif

import (
	"encoding/json"
	"strconv"
	"time"

	"remshell/idset"
	"remshell/job"
	"remshell/plan/nodeset"
)

// This file writes down what was said of which nodes a job gets, and of what its ranks take of them.

// sectionOptions are those of what the ranks of a section take of a node.
func sectionOptions(s job.Share, o *choosing) {
	o.Shape, o.PerNUMA, o.NUMANodes = unlessNone(s.Shape), unlessNone(s.NUMA.Each), unlessNone(s.NUMA.Lowest)
	if s.NUMA.List != nil {
		o.NUMAList = unlessZero(word(idset.Text(s.NUMA.List)))
	}
	if s.NUMA.Strict {
		o.StrictMem = &s.NUMA.Strict
	}
	switch s.HWThreads {
	case 0:
	case job.AllThreads:
		o.HWThreads = number[word](0)
	default:
		o.HWThreads = number[word](s.HWThreads)
	}
}

// hugeWords are what a size says of huge pages.
var hugeWords = map[job.HugeWish]string{job.HugeWanted: "h", job.HugeNeeded: "hs"}

// jobOptions are those of the job as a whole. Which request for node sets counts was found out: it is
// the job's own there, whoever made it.
func jobOptions(c job.Choosing, o *choosing) {
	if c.Balance {
		o.NodeAlloc = unlessZero("MAXBALANCE")
	}
	if s := c.Set; s.Policy != "" {
		o.Set, o.Priority = unlessZero(s.Request.String()), unlessZero(string(s.Priority))
		o.Optional = unlessZero(map[bool]answer{true: "yes", false: "no"}[s.Optional])
		o.Tolerance = unlessZero(answer(s.Tolerance.String()))
		o.Delay = number[answer](int((s.Delay + time.Second - 1) / time.Second))
		words := s.Plus.String()
		o.Plus = &words
	}
	o.Class, o.Contiguous, o.Reserve = unlessZero(c.Class), unlessZero(string(c.Contiguous)), unlessNone(c.Reserve)
	if c.Memory > 0 {
		o.MemPerRank = unlessZero(word(strconv.FormatInt(c.Memory>>10, 10) + "K" + hugeWords[c.Huge]))
	}
}

// rulesOf are the rules of the cluster that hold for the job. Its class is one that anybody may have:
// that it may was found out.
func rulesOf(c job.Choosing) (r rules) {
	if c.Class != "" {
		r.Classes = []classRules{{Name: c.Class}}
	}
	if c.Set.Policy != "" {
		r.Set = &setRules{MaxDelay: number[word](int(c.Set.Delay/time.Second) + 1)} // it was cut already
	}
	for _, a := range c.Affinity {
		r.Affinity = append(r.Affinity, affinityRule{Nodes: a.Nodes, Feature: a.Feature, Value: a.Value})
	}
	r.Domain = c.Domain
	for _, region := range c.Regions {
		rule := regionRules{Name: region.Name, Signature: region.Signature, Nodes: region.Nodes,
			Users: region.Gate.Users, Groups: region.Gate.Groups, Classes: region.Gate.Classes}
		if width := region.Gate.Width; width != nil && *width == job.AutoWidth {
			rule.Width = unlessZero[word]("auto")
		} else if width != nil {
			rule.Width = number[word](*width)
		}
		r.Regions = append(r.Regions, rule)
	}
	return r
}

// attributesOf are those of a node that a file of it has to tell, as they count.
func attributesOf(n *job.Node) (all map[string]json.RawMessage) {
	tell := func(name string) {
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
		tell(name)
	}
	for name := range n.Attributes {
		tell(name)
	}
	return all
}

// unlessNone is a number, if it is one.
func unlessNone(n int) *word {
	if n == 0 {
		return nil
	}
	return number[word](n)
}
