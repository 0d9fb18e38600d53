package plan

import (
	"strings"

	"remshell/job"
	"remshell/plan/region"
)

// This file tells each candidate in which region it is, and whether the job may enter there
// (which-hosts.md 10).

// An entrance is what is known of a candidate's region.
type entrance struct {
	region int    // its number in the domain; 0 for all if there are none
	name   string // empty: it is in none
	shut   string // why the job may not enter; empty: it may
	unsure bool   // it might, if the sizes of all nodes were known
}

// visitor is what gates want to know of a job. Its sections count together; one that has a choice of
// numbers counts with the least, and one without any not at all.
func visitor(req job.Request) region.Visitor {
	v := region.Visitor{User: req.User, Class: req.Class}
	for _, app := range req.Apps {
		n := app.N
		if n == 0 && len(app.Soft) > 0 {
			n = app.Soft[len(app.Soft)-1]
		}
		v.CPUs += n * max(1, app.Threads)
	}
	return v
}

// entranceTo finds a node's region, and what the verdict on that is.
func entranceTo(d region.Domain, verdicts []region.Verdict, n *job.NodeDef) entrance {
	number, name := d.Of(n)
	switch {
	case number != region.Outside:
		return entrance{number, name, verdicts[number].Closed, verdicts[number].Unsure}
	case name != "":
		return entrance{number, name, name + ": it is not of the domain", false}
	}
	return entrance{number, name, "it is in no region", false}
}

// enter judges the regions, whose sizes are those of all nodes, listed or not.
func (p *problem) enter() {
	d := region.New(p.req.Regions, p.req.Domain)
	if !d.Divides() {
		return
	}
	names := d.Names()
	sizes := make([]region.Size, len(names))
	for i := range p.candidates {
		c := &p.candidates[i]
		if number, _ := d.Of(&c.NodeDef); number != region.Outside && !c.NoJobs {
			sizes[number].CPUs += c.capacity
			sizes[number].Unknown = sizes[number].Unknown || len(c.Topology.Cores) == 0
		}
	}
	verdicts := d.Gates(visitor(p.req), sizes)
	for i := range p.candidates {
		p.candidates[i].entrance = entranceTo(d, verdicts, &p.candidates[i].NodeDef)
	}
	p.regions = make([]string, 0, len(names))
	for i, v := range verdicts {
		if v.Closed == "" {
			p.regions = append(p.regions, names[i])
			continue
		}
		p.closed = append(p.closed, job.Note{Code: "region", Node: names[i], Text: strings.TrimPrefix(v.Closed, names[i]+": ")})
	}
}

// flavorFit and regionFit are the checks of flavors and gates.
var (
	flavorFit = check{"flavor", func(s *candidate, w *requirement) string {
		return unless(region.Applications(s.Flavors), "it is not for applications (ap)")
	}}
	regionFit = check{"region", func(s *candidate, w *requirement) string { return s.shut }}
)

// Worthy reports whether nodes need be looked at at all: nothing that is known without a connection
// excludes them from every part of the job, or the width of a gate depends on their size.
func Worthy(req job.Request) func(def job.NodeDef) bool {
	d := region.New(req.Regions, req.Domain)
	verdicts := d.Settled(visitor(req))
	listed := req.Listed()
	return func(def job.NodeDef) bool {
		c := &candidate{Node: job.Node{NodeDef: def}}
		if d.Divides() {
			c.entrance = entranceTo(d, verdicts, &def)
			if d.Measured(c.region) && !def.NoJobs {
				return true
			}
		}
		if c.unsure {
			c.shut = ""
		}
		return listed[def.Name] && allowed(req, c)
	}
}
