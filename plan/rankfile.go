package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
)

// This file places ranks that were told where to go (rank file, -rankmap; cli.md 4.3).
// Nothing is chosen: a rank goes where it was told, or there is no plan.

// placeByRankFile places every rank.
func (s *placement) placeByRankFile(usable [][]bool) *Error {
	s.owners, s.fixedCPUs, s.fixedRanksOn = make(map[int]*cpuOwners), make(map[int][]int), make(map[[2]int]int)
	rank := 0
	for a, app := range s.req.Apps {
		among := s.candidatesNamed(app.Hosts)
		for range app.N {
			if rank == len(s.req.FixedPlacements) {
				return &Error{Code: CodeNotEnough, Text: fmt.Sprintf("nobody says where rank %d is to go", rank), Permanent: true}
			}
			if err := s.placeFixedRank(rank, a, usable[a], among); err != nil {
				return err
			}
			rank++
		}
	}
	return nil
}

// candidatesNamed tells which candidates are some of the hosts a section is confined to.
func (s *placement) candidatesNamed(hosts []string) []bool {
	set := nameSet(hosts)
	may := make([]bool, len(s.candidates))
	for i := range s.candidates {
		may[i] = s.candidates[i].isNamedIn(set)
	}
	return may
}

// placeFixedRank puts a rank at its spot. usable and among are by candidate.
func (s *placement) placeFixedRank(rank, a int, usable, among []bool) *Error {
	spot := &s.req.FixedPlacements[rank]
	i := s.candidateOf[spot.Node]
	n, app := &s.candidates[i], s.req.Apps[a]
	width := max(1, app.CPUsPerRank)
	switch limit, by := s.rankLimit(i, app); {
	case !among[i]:
		return refuseFixedPlacement(spot, CodeNoNodes, "rank %d runs another program than %s is for: that is to run on %s only", rank, n.Name, hostlist.FoldBrief(app.Hosts))
	case !usable[i]:
		w := requirementOf(s.req, app)
		code, detail := dropReason(n, &w)
		return refuseFixedPlacement(spot, CodeNoNodes, "rank %d cannot run on %s: %s", rank, n.Name, reasonText(code, detail))
	case limit <= 0:
		return refuseFixedPlacement(spot, CodeLimits, "rank %d is one too many on %s: %s allows %d there", rank, n.Name, by, s.ranksOn[i])
	case app.PerNode > 0 && s.fixedRanksOn[[2]int{a, i}] >= app.PerNode:
		return refuseFixedPlacement(spot, CodeLimits, "rank %d is one too many on %s: -ppn allows %d there", rank, n.Name, app.PerNode)
	case spot.Picks != nil:
		width = 1
		if err := s.takeFixedCPUs(rank, i); err != nil {
			return err
		}
	}
	if crowded := s.freeSlots[i] < width; crowded && (spot.Picks == nil || n.Slots > 0) && !s.mayUseSlotOfOtherJob(i, width) {
		if err := s.allowSharing(spot, n, fmt.Sprintf("rank %d finds no free slot on %s, which has %d", rank, n.Name, n.free)); err != nil {
			return err
		}
	}
	s.putRanks(a, i, 1)
	s.freeSlots[i] += max(1, app.CPUsPerRank) - width
	s.fixedRanksOn[[2]int{a, i}]++
	return nil
}

// allowSharing lets ranks have the same CPUs if that is welcome.
func (s *placement) allowSharing(spot *job.FixedPlacement, n *candidate, what string) *Error {
	welcome := s.req.Overbook || s.req.ShareOwnCPUs || s.req.LocalOnly && spot.Picks == nil && n.Slots == 0
	if n.NoOverbook || s.req.NoOversubscribe || !welcome {
		e := refuseFixedPlacement(spot, CodeNotEnough, "%s", what)
		e.Remedy = "give it another place, or share CPUs with --oversubscribe"
		if n.NoOverbook {
			e.Remedy = "give it another place; this node may not be overbooked"
		}
		return e
	}
	s.sharesCPUs = true
	return nil
}

// takeFixedCPUs finds the CPUs that were written down for a rank, and sees that it may have them.
func (s *placement) takeFixedCPUs(rank, i int) *Error {
	n, spot := &s.candidates[i], &s.req.FixedPlacements[rank]
	book := s.ownersOn(i)
	cpus, err := book.numbering.CPUs(spot.Picks)
	if err != nil {
		return refuseFixedPlacement(spot, CodeNotEnough, "rank %d: %s %w", rank, n.Name, err)
	}
	for _, cpu := range cpus {
		if slot, is := book.slotOfCPU[cpu]; is && n.busy[book.slots[slot].Number] {
			if s.ignoresOtherJobs() {
				s.sharesCPUs = true
				continue
			}
			return refuseFixedPlacement(spot, CodeNotEnough, "rank %d: CPU %d of %s is in use by another job", rank, cpu, n.Name)
		}
		if other, taken := book.rankOfCPU[cpu]; taken {
			if err := s.allowSharing(spot, n, fmt.Sprintf("ranks %d and %d are both to have CPU %d of %s", other, rank, cpu, n.Name)); err != nil {
				return err
			}
		}
		book.rankOfCPU[cpu] = rank
	}
	slices.Sort(cpus)
	s.fixedCPUs[rank] = cpus
	return nil
}

// hasFixedCPUs reports whether CPUs were written down, and not nodes alone.
func (s *placement) hasFixedCPUs() bool {
	return len(s.req.FixedPlacements) > 0 && s.req.FixedPlacements[0].Picks != nil
}

// A cpuOwners is what a node has, and who of this job has it.
type cpuOwners struct {
	numbering *pin.Numbering
	slots     []pin.Unit
	slotOfCPU map[int]int // of a CPU
	rankOfCPU map[int]int // the last rank that was given a CPU
}

func (s *placement) ownersOn(i int) *cpuOwners {
	if b := s.owners[i]; b != nil {
		return b
	}
	n := &s.candidates[i]
	b := &cpuOwners{numbering: n.Topology.Numbering(n.CountThreads), slots: n.slotsInMapOrder(n.CPUMap),
		slotOfCPU: make(map[int]int), rankOfCPU: make(map[int]int)}
	for slot, u := range b.slots {
		for _, cpu := range u.CPUs {
			b.slotOfCPU[cpu] = slot
		}
	}
	s.owners[i] = b
	return b
}

// bindFixedCPUs gives the ranks of a node the CPUs that were written down for them, and
// of its slots those they touch.
func (s *placement) bindFixedCPUs(i int, ranks []job.RankPlan) {
	n, book := &s.candidates[i], s.ownersOn(i)
	for k := range ranks {
		cpus := s.fixedCPUs[ranks[k].Rank]
		var mine []int
		for _, cpu := range cpus {
			mine = append(mine, book.slotOfCPU[cpu])
		}
		slices.Sort(mine)
		assigned := pin.NewAssignment(book.slots, slices.Compact(mine))
		assigned.CPUs = cpus
		s.bindRank(n, &ranks[k], assigned)
	}
}

// refuseFixedPlacement is the error about one spot, with the line where it was written.
func refuseFixedPlacement(spot *job.FixedPlacement, code, format string, args ...any) *Error {
	reason := fmt.Errorf(format, args...).Error()
	if spot.Position.File == "" {
		return &Error{Code: code, Text: reason}
	}
	m := spot.Position
	at := &hostlist.SyntaxError{File: m.File, Line: m.Line, Col: m.Col, Width: m.Width, Source: m.Source, Reason: reason}
	return &Error{Code: code, Text: at.Where() + ": " + reason, InputError: at}
}
