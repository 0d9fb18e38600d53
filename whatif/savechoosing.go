package whatif

import (
	"encoding/json"
	"strconv"

	"remshell/idset"
	"remshell/job"
)

// This file writes down what was said of which nodes a job gets, and of what its ranks take of them.

// sectionOptions are those of what the ranks of a section take of a node.
func sectionOptions(s job.Share, o *choosing) {
	o.Shape, o.PerNUMA, o.NUMANodes = unlessNone(s.Shape), unlessNone(s.NUMA.Each), unlessNone(s.NUMA.Lowest)
	if s.NUMA.List != nil {
		o.NUMAList, _ = json.Marshal(idset.Text(s.NUMA.List))
	}
	if s.NUMA.Strict {
		o.StrictMem = &s.NUMA.Strict
	}
	switch s.HWThreads {
	case 0:
	case job.AllThreads:
		o.HWThreads = text(0)
	default:
		o.HWThreads = text(s.HWThreads)
	}
}

// jobOptions are those of the job as a whole.
func jobOptions(c job.Choosing, o *choosing) {
	o.Class, o.Contiguous, o.Reserve = unlessZero(c.Class), unlessZero(string(c.Contiguous)), unlessNone(c.Reserve)
	if c.Memory > 0 {
		o.MemPerRank, _ = json.Marshal(strconv.FormatInt(c.Memory>>10, 10) + "K")
	}
}

// rulesOf are the rules of the cluster that hold for the job. Its class is one that anybody may have:
// that it may was found out.
func rulesOf(c job.Choosing) (r rules) {
	if c.Class != "" {
		r.Classes = []classRules{{Name: c.Class}}
	}
	r.Domain = c.Domain
	for _, region := range c.Regions {
		rule := regionRules{Name: region.Name, Signature: region.Signature, Nodes: region.Nodes,
			Users: region.Gate.Users, Groups: region.Gate.Groups, Classes: region.Gate.Classes}
		if width := region.Gate.Width; width != nil && *width == job.AutoWidth {
			rule.Width = json.RawMessage(`"auto"`)
		} else if width != nil {
			rule.Width = text(*width)
		}
		r.Regions = append(r.Regions, rule)
	}
	return r
}

// unlessNone is a number, if it is one.
func unlessNone(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	return text(n)
}
