/*
Package plan makes every decision that can be made before a process starts.

	Request + Snapshot --> join --> select --> choose --> order --> place --> bind --> Plan
	                    candidates  usable     turns      turns     ranks     CPUs
	                                rejected

Each stage makes a value that a dry run shows. The stages up to place are one function,
solve: what may start now and what could ever start are asked of the same one.

It is a pure function: equal arguments give an equal plan, today, in a test, and for
a cluster that exists in a file only. The rules are those of placement.md; section
numbers in comments are its own. It does not read variables and flags (package psi
does), nor files, nor the queue.
*/
package plan

import (
	"fmt"

	"remshell/job"
	"remshell/sort"
	"remshell/text"
)

// Make turns what was asked and what was seen into what will be done. The error is
// an *Error; the plan then tells the rejected nodes and the notes alone.
func Make(req job.Request, snap job.Snapshot) (job.Plan, error) {
	mode, err := sortModeOf(req)
	if err != nil {
		return job.Plan{}, err
	}
	here, notes := joinNames(req, snap)
	here.sortMode = mode
	here.makeContiguous()
	notes = append(notes, here.unusedValueNotes()...)
	found, failed := here.solve()
	if failed != nil && here.req.Oversubscribe && !here.req.NoOversubscribe && !here.req.FreeCPUsFirst {
		here = here.withSharedCPUs()
		found, failed = here.solve()
	}
	notes = append(notes, here.mixedSpeedNotes(found.usable)...)
	p := job.Plan{Job: req.Job, Sort: string(here.sortMode), Exclusive: isExclusive(req), Rejected: found.rejected, Notes: notes}
	failed = chooseRefusal(req, snap, here.refuseClaimedHost(failed, found.rejected), func() bool { return !here.withIdleNodes().mayFitWhenIdle() })
	if failed != nil {
		if !failed.textNamesRejected {
			failed.Rejected = found.rejected
		}
		return p, failed
	}
	s := found.placement
	p.Size = len(s.assigned)
	for _, turn := range s.entries {
		p.FillOrder = append(p.FillOrder, here.candidates[turn].Name)
	}
	if req.RM != nil {
		p.Notes = append(p.Notes, s.overgrantedNotes()...)
	}
	if note, there := s.unrankedHostsNote(); there {
		p.Notes = append(p.Notes, note)
	}
	p.Nodes = s.nodePlans()
	more, failed := s.bindRanks(p.Nodes)
	if p.Notes = append(p.Notes, more...); failed != nil {
		return job.Plan{Rejected: found.rejected, Notes: p.Notes}, failed
	}
	if req.Attempt == 0 {
		p.Notes = append(p.Notes, s.evenPartNotes(p.Nodes)...)
	}
	if p.Overbooked = s.sharesCPUs; s.sharesCPUs && req.LocalOnly {
		if note := s.sharedCPUsNote(); note.Code != "" {
			p.Notes = append(p.Notes, note)
		}
	}
	p.Mapping = Mapping(s.candidateOfRank())
	p.Choice = here.choiceFor(&found)
	return p, nil
}

// overgrantedNotes tells of hosts on which a batch system has granted more slots than there are CPUs:
// what is beyond them is overbooked, as if the slots were written down (rm-integration.md RM-20).
func (s *placement) overgrantedNotes() (notes []job.Note) {
	for i := range s.candidates {
		n := &s.candidates[i]
		if cpus := n.CPUs(); s.ranksOn[i] > 0 && len(n.Topology.Cores) > 0 && n.Slots > cpus {
			notes = append(notes, job.Note{Code: "granted", Node: n.Name, ID: n.ID,
				Text: fmt.Sprintf("warning: %s: %s granted but only %s usable", n.Name, text.Count(n.Slots, "slot"), text.Count(cpus, "CPU"))})
		}
	}
	return notes
}

// sortModeOf is the key by which the turns are sorted; none was given: NONE.
func sortModeOf(req job.Request) (sort.Mode, error) {
	if req.Sort == "" {
		return sort.None, nil
	}
	mode, err := sort.Parse(req.Sort, true)
	if err != nil {
		return mode, &Error{Code: CodeBadSort, Text: err.Error(), Permanent: true}
	}
	return mode, nil
}

// isExclusive reports whether the job wants idle nodes for itself (1.3). Overbooking this
// machine alone keeps nobody away.
func isExclusive(req job.Request) bool { return req.Exclusive || req.Overbook && !req.LocalOnly }

// sharedCPUsNote is the one notice of PLACE-4: whose CPUs ranks share on this machine.
func (s *placement) sharedCPUsNote() job.Note {
	here, ranks := s.candidates[0], len(s.assigned)
	n := text.Count(ranks, "rank") + " share"
	if ranks == 1 {
		n += "s"
	}
	why := describeConfinement(here.Node, s.req.Reserve)
	if why != "" {
		why = " (" + why + ")"
	}
	cpus := here.CPUs()
	if s.req.Oversubscribe && len(here.busy) == 0 && len(s.candidates) == 1 {
		return job.Note{} // it was asked for, and shares with nobody else
	}
	notice := fmt.Sprintf("%s the %s of this machine%s", n, text.Count(cpus, "CPU"), why)
	switch left := cpus - len(here.busy); {
	case len(s.candidates) > 1:
		notice = fmt.Sprintf("%s the CPUs of this machine, which plays %d nodes", n, len(s.candidates))
	case len(here.busy) == 0 && !s.req.Overbook:
		silence := fmt.Sprintf("-host localhost:%d", ranks)
		if each := s.maxThreads; each > 1 { // as many slots would not do
			why, silence = fmt.Sprintf("%s; each wants %d", why, each), "--oversubscribe"
		}
		notice = fmt.Sprintf("%s %s%s. To silence this: %s", n, text.Count(cpus, "CPU"), why, silence)
	case len(here.busy) == 0:
	case s.hasFixedCPUs() || s.req.Layout.NamesCPUs():
		notice += " with other jobs"
	case left == 0:
		notice = fmt.Sprintf("%s %s%s with other jobs; no CPU is free", n, text.Count(cpus, "CPU"), why)
	default:
		notice = fmt.Sprintf("%s %d of %s%s; other jobs use the rest", n, left, text.Count(cpus, "CPU"), why)
	}
	if s.req.Overbook {
		notice += "; overbooking keeps no other job away here"
	}
	return job.Note{Code: CodeOverbook, Text: notice}
}
