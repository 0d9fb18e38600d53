package plan

import (
	"strings"

	"remshell/job"
	"remshell/plan/region"
)

// This file tells each candidate in which region it is, and whether the job may enter there
// (which-hosts.md 10).

// A regionAccess is what is known of a candidate's region.
type regionAccess struct {
	regionNumber int    // its number in the domain; 0 for all if there are none
	regionName   string // empty: it is in none
	closedReason string // why the job may not enter; empty: it may
	mayOpenLater bool   // it might, if the sizes of all nodes were known
}

// gateRequest is what gates want to know of a job. Its sections count together; one that has a choice of
// numbers counts with the least, and one without any not at all.
func gateRequest(req job.Request) region.GateRequest {
	v := region.GateRequest{User: req.User, Class: req.Class}
	for _, app := range req.Apps {
		n := app.N
		if n == 0 && len(app.Soft) > 0 {
			n = app.Soft[len(app.Soft)-1]
		}
		v.CPUs += n * max(1, app.CPUsPerRank)
	}
	return v
}

// regionAccessOf finds a node's region, and what the verdict on that is.
func regionAccessOf(d region.Domain, verdicts []region.Verdict, n *job.NodeDef) regionAccess {
	number, name := d.RegionOf(n)
	switch {
	case number != region.OutsideDomain:
		return regionAccess{number, name, verdicts[number].ClosedReason, verdicts[number].MayOpenLater}
	case name != "":
		return regionAccess{number, name, name + ": it is not of the domain", false}
	}
	return regionAccess{number, name, "it is in no region", false}
}

// judgeRegions judges the regions, whose sizes are those of all nodes, listed or not.
func (p *problem) judgeRegions() {
	d := region.New(p.req.Regions, p.req.Domain)
	if !d.HasRegions() {
		return
	}
	names := d.Names()
	sizes := make([]region.Size, len(names))
	for i := range p.candidates {
		c := &p.candidates[i]
		if number, _ := d.RegionOf(&c.NodeDef); number != region.OutsideDomain && !c.NoJobs {
			sizes[number].CPUs += c.gateCPUs
			sizes[number].Unknown = sizes[number].Unknown || len(c.Topology.Cores) == 0
		}
	}
	verdicts := d.JudgeGates(gateRequest(p.req), sizes)
	for i := range p.candidates {
		p.candidates[i].regionAccess = regionAccessOf(d, verdicts, &p.candidates[i].NodeDef)
	}
	p.openRegions = make([]string, 0, len(names))
	for i, v := range verdicts {
		if v.ClosedReason == "" {
			p.openRegions = append(p.openRegions, names[i])
			continue
		}
		p.closedRegions = append(p.closedRegions, job.Note{Code: "region", Node: names[i], Text: strings.TrimPrefix(v.ClosedReason, names[i]+": ")})
	}
}

// flavorCheck and regionFit are the checks of flavors and gates.
var (
	flavorCheck = nodeCheck{"flavor", func(s *candidate, w *requirement) string {
		return reasonUnless(region.RunsRanks(s.Flavors), "it is not for applications (ap)")
	}}
	regionCheck = nodeCheck{"region", func(s *candidate, w *requirement) string { return s.closedReason }}
)

// ProbeFilter reports whether nodes need be looked at at all: nothing that is known without a connection
// excludes them from every part of the job, or the width of a gate depends on their size.
func ProbeFilter(req job.Request) func(def job.NodeDef) bool {
	d := region.New(req.Regions, req.Domain)
	verdicts := d.JudgeWithoutSizes(gateRequest(req))
	listed := req.ListedNodes()
	return func(def job.NodeDef) bool {
		c := &candidate{Node: job.Node{NodeDef: def}}
		if d.HasRegions() {
			c.regionAccess = regionAccessOf(d, verdicts, &def)
			if d.NeedsSize(c.regionNumber) && !def.NoJobs {
				return true
			}
		}
		if c.mayOpenLater {
			c.closedReason = ""
		}
		return listed[def.Name] && mayBeUsed(req, c)
	}
}
