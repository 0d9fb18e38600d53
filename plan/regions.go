package plan

import (
	"remshell/job"
	"remshell/plan/region"
)

// This file finds the region of each candidate, and whether the job may use that region (which-hosts.md 10).

// A regionAccess says to which region a candidate belongs, and whether the job may use that region.
type regionAccess struct {
	regionNumber int    // its number in the domain; 0 for all nodes if there are no regions
	regionName   string // empty if the node is in no region
	closedReason string // why the job may not enter; empty if it may
	mayOpenLater bool   // the job might enter if the sizes of all nodes were known
}

// gateRequest returns the properties of a job that determine which regions of the cluster the job may use. The numbers
// of CPUs of all apps are added up. If an app has several acceptable numbers of ranks (-soft), the smallest is used.
// Apps without a number of ranks are left out.
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

// regionAccessOf returns the region of a node, and whether the job may use it.
func regionAccessOf(d region.Domain, verdicts []region.Verdict, n *job.NodeDef) regionAccess {
	number, name := d.RegionOf(n)
	switch {
	case number != region.OutsideDomain:
		reason := verdicts[number].ClosedReason
		if reason != "" {
			reason = "region " + name + " " + reason
		}
		return regionAccess{number, name, reason, verdicts[number].MayOpenLater}
	case name != "":
		return regionAccess{number, name, "region " + name + " is not in the domain of this job", false}
	}
	return regionAccess{number, name, "the host is not in any region", false}
}

// judgeRegions decides for each candidate whether the job may use its region. The size of a region includes
// all its nodes, even those that are not in the host list.
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
		p.closedRegions = append(p.closedRegions, job.Note{Code: "region", Node: names[i], Text: v.ClosedReason})
	}
}

// flavorCheck rejects nodes whose flavors do not allow ranks. regionCheck rejects nodes in a region that the job may
// not use.
var (
	flavorCheck = nodeCheck{"flavor", func(s *candidate, w *requirement) string {
		return reasonUnless(region.RunsRanks(s.Flavors), "the host may not run ranks: its flavors in the cluster file do not include ap")
	}}
	regionCheck = nodeCheck{"region", func(s *candidate, w *requirement) string { return s.closedReason }}
)

// ProbeFilter returns a function that reports whether a node must be probed. A node must be probed if an
// app of the job might use it, as far as is known without a connection. It must also be probed if the
// size of the node decides whether the job may use a region.
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
