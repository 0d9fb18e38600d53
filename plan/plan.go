/*
Package plan makes every decision that can be made before a process starts: which nodes a job uses, which
rank runs on which node, and on which CPUs.

	Request + Snapshot --> join --> select --> choose --> order --> place --> bind --> Plan
	                    candidates  usable    host       host      ranks     CPUs
	                                rejected  entries    entries

A dry run shows the result of each stage. One function, solve, runs the stages up to place. It decides
both whether a job fits now and whether it could ever fit.

Make is a pure function: equal arguments give an equal plan, in production, in a test, and for a cluster
that exists only in a file. It does not read environment variables or options (package psi does), files,
or the queue. Section numbers in comments refer to placement.md.

A host entry is one occurrence of a host in the user's list. Several entries may name the same host. Capacity
is the number of ranks that fit on a node without sharing CPUs. Written slots are the N of a host entry HOST:N.
*/
package plan

import (
	"fmt"
	"strings"

	"remshell/job"
	"remshell/sort"
	"remshell/text"
)

// Make returns the plan for a request. snap is the state of the cluster. The error is an *Error. If there is an error,
// the plan contains the rejected nodes and the notes, but places no ranks.
func Make(req job.Request, snap job.Snapshot) (job.Plan, error) {
	mode, err := sortModeOf(req)
	if err != nil {
		return job.Plan{}, err
	}
	prob, notes := joinNames(req, snap)
	prob.sortMode = mode
	prob.makeContiguous()
	notes = append(notes, prob.unusedValueNotes()...)
	var found solution
	var failed *Error
	var party int
	if req.Gang {
		prob, found, party, failed = prob.solveForGang()
	} else {
		found, failed = prob.solve()
	}
	if failed != nil && prob.req.Oversubscribe && !prob.req.NoOversubscribe && !prob.req.FreeCPUsFirst {
		prob = prob.withSharedCPUs()
		found, failed = prob.solve()
	}
	notes = append(notes, prob.mixedSpeedNotes(found.usable)...)
	p := job.Plan{Job: req.Job, Sort: string(prob.sortMode), Exclusive: isExclusive(req), Rejected: found.rejected, Notes: notes}
	failed = chooseRefusal(req, snap, prob.adviseAboutGangs(prob.refuseClaimedHost(failed, found.rejected), found.rejected), func() bool { return !prob.withIdleNodes().mayFitWhenIdle() })
	if failed != nil {
		if !failed.textNamesRejected {
			failed.Rejected = found.rejected
			failed.Remedy = strings.TrimPrefix(failed.Remedy+prob.undrainHint(found.rejected), "; ")
		}
		return p, failed
	}
	s := found.placement
	p.Size = len(s.assigned)
	for _, entry := range s.entries {
		p.FillOrder = append(p.FillOrder, prob.candidates[entry].Name)
	}
	if req.RM != nil {
		p.Notes = append(p.Notes, s.overgrantedNotes()...)
	}
	if note, any := s.unrankedHostsNote(); any {
		p.Notes = append(p.Notes, note)
	}
	p.Nodes = s.nodePlans()
	more, failed := s.bindRanks(p.Nodes)
	if p.Notes = append(p.Notes, more...); failed != nil {
		return job.Plan{Rejected: found.rejected, Notes: p.Notes}, failed
	}
	if req.Gang {
		s.claimAllCPUs(p.Nodes)
		if p.Gang, p.GangCompetitors, failed = s.gangOf(party, p.Nodes); failed != nil {
			return job.Plan{Rejected: found.rejected, Notes: p.Notes}, failed
		}
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
	p.Choice = prob.choiceFor(&found)
	return p, nil
}

// overgrantedNotes returns a warning for each host on which a batch system has granted more slots than the host has
// usable CPUs. Ranks share CPUs on these hosts, as if the user had written that number of slots (rm-integration.md
// RM-20).
func (s *placement) overgrantedNotes() (notes []job.Note) {
	for i := range s.candidates {
		n := &s.candidates[i]
		if cpus := n.CPUs(); s.ranksOn[i] > 0 && len(n.Topology.Cores) > 0 && n.Slots > cpus {
			notes = append(notes, job.Note{Code: "granted", Node: n.Name, ID: n.ID,
				Text: fmt.Sprintf("warning: %s: the batch system granted %s, but ranks can use only %s", n.Name, text.Count(n.Slots, "slot"), text.Count(cpus, "CPU"))})
		}
	}
	return notes
}

// sortModeOf returns the key by which host entries are sorted. The default is NONE.
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

// isExclusive reports whether the job needs nodes that no other job uses (placement.md 1.3). A job that
// overbooks only this machine does not exclude other jobs.
func isExclusive(req job.Request) bool { return req.Exclusive || req.Overbook && !req.LocalOnly }

// sharedCPUsNote returns a warning that ranks share CPUs on this machine (rule PLACE-4). The warning also says whether
// other jobs use these CPUs. If the user has asked for sharing and no other job is affected, the note is empty.
func (s *placement) sharedCPUsNote() job.Note {
	node, ranks := s.candidates[0], len(s.assigned)
	ranksShare := text.Count(ranks, "rank") + " share"
	if ranks == 1 {
		ranksShare += "s"
	}
	why := describeConfinement(node.Node, s.req.Reserve)
	if why != "" {
		why = " (" + why + ")"
	}
	cpus := node.CPUs()
	if s.req.Oversubscribe && len(node.busy) == 0 && len(s.candidates) == 1 {
		return job.Note{} // the user asked for it, and no other job is affected
	}
	notice := fmt.Sprintf("%s the %s of this machine%s", ranksShare, text.Count(cpus, "CPU"), why)
	switch left := cpus - len(node.busy); {
	case len(s.candidates) > 1:
		notice = fmt.Sprintf("%s the CPUs of this machine, which mpiexec uses as %s", ranksShare, text.Count(len(s.candidates), "node"))
	case len(node.busy) == 0 && !s.req.Overbook:
		if each := s.maxThreads; each > 1 {
			why = fmt.Sprintf("%s; each needs %d", why, each)
		}
		notice = fmt.Sprintf("%s %s%s. To hide this message, use --oversubscribe", ranksShare, text.Count(cpus, "CPU"), why)
	case len(node.busy) == 0:
	case s.hasFixedCPUs() || s.req.Layout.NamesCPUs():
		notice = fmt.Sprintf("%s the %s of this machine%s with other jobs", ranksShare, text.Count(cpus, "CPU"), why)
	case left == 0:
		notice = fmt.Sprintf("%s %s%s with other jobs; no CPU is free", ranksShare, text.Count(cpus, "CPU"), why)
	default:
		notice = fmt.Sprintf("%s %d of %s%s; other jobs use the rest", ranksShare, left, text.Count(cpus, "CPU"), why)
	}
	if s.req.Overbook {
		notice += "; on this machine, --overbook does not keep other jobs away"
	}
	return job.Note{Code: CodeOverbook, Text: notice}
}
