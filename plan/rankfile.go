package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file places ranks by a rank file or -rankmap (cli.md 4.3). A rank runs where the file says, or
// there is no plan.

// placeByRankFile places every rank on the node that the rank file names.
func (s *placement) placeByRankFile(usable [][]bool) *Error {
	s.owners, s.fixedCPUs, s.fixedRanksOn = make(map[int]*cpuOwners), make(map[int][]int), make(map[[2]int]int)
	rank := 0
	for a, app := range s.req.Apps {
		among := s.candidatesNamed(app.Hosts)
		for range app.N {
			if rank == len(s.req.FixedPlacements) {
				return &Error{Code: CodeNotEnough, Text: fmt.Sprintf("the rank file does not place rank %d", rank), Permanent: true}
			}
			if err := s.placeFixedRank(rank, a, usable[a], among); err != nil {
				return err
			}
			rank++
		}
	}
	return nil
}

// candidatesNamed reports, for each candidate, whether hosts contains one of the candidate's names. If hosts is nil,
// the result is true for all candidates.
func (s *placement) candidatesNamed(hosts []string) []bool {
	set := nameSet(hosts)
	may := make([]bool, len(s.candidates))
	for i := range s.candidates {
		may[i] = s.candidates[i].isNamedIn(set)
	}
	return may
}

// placeFixedRank places a rank on the node that the rank file names for it. a is the index of the rank's app. usable
// and allowed say which candidates this app may use.
func (s *placement) placeFixedRank(rank, a int, usable, allowed []bool) *Error {
	fixed := &s.req.FixedPlacements[rank]
	i := s.candidateOf[fixed.Node]
	n, app := &s.candidates[i], s.req.Apps[a]
	width := max(1, app.CPUsPerRank)
	switch limit, limitName := s.rankLimit(i, app); {
	case !allowed[i]:
		return refuseFixedPlacement(fixed, CodeNoNodes, "rank %d cannot run on %s: its program may use only %s", rank, n.Name, hostlist.FoldBrief(app.Hosts))
	case !usable[i]:
		w := requirementOf(s.req, app)
		code, detail := dropReason(n, &w)
		return refuseFixedPlacement(fixed, CodeNoNodes, "rank %d cannot run on %s: %s", rank, n.Name, reasonText(code, detail))
	case limit <= 0:
		return refuseFixedPlacement(fixed, CodeLimits, "rank %d does not fit on %s: %s allows only %s on this host", rank, n.Name, limitName, text.Count(s.ranksOn[i], "rank"))
	case app.PerNode > 0 && s.fixedRanksOn[[2]int{a, i}] >= app.PerNode:
		return refuseFixedPlacement(fixed, CodeLimits, "rank %d does not fit on %s: -ppn allows only %s on this host", rank, n.Name, text.Count(app.PerNode, "rank"))
	case fixed.Picks != nil:
		width = 1
		if err := s.takeFixedCPUs(rank, i); err != nil {
			return err
		}
	}
	if crowded := s.freeSlots[i] < width; crowded && (fixed.Picks == nil || n.Slots > 0) && !s.mayUseSlotOfOtherJob(i, width) {
		if err := s.allowSharing(fixed, n, fmt.Sprintf("rank %d needs %s on %s; free slots: %d", rank, text.Count(width, "slot"), n.Name, max(0, s.freeSlots[i]))); err != nil {
			return err
		}
	}
	s.putRanks(a, i, 1)
	s.freeSlots[i] += max(1, app.CPUsPerRank) - width
	s.fixedRanksOn[[2]int{a, i}]++
	return nil
}

// allowSharing lets ranks share CPUs if the user's settings allow sharing. Otherwise it returns an error with the
// given text.
func (s *placement) allowSharing(fixed *job.FixedPlacement, n *candidate, text string) *Error {
	allowed := s.req.Overbook || s.req.ShareOwnCPUs || s.req.LocalOnly && fixed.Picks == nil && n.Slots == 0
	if n.NoOverbook || s.req.NoOversubscribe || !allowed {
		e := refuseFixedPlacement(fixed, CodeNotEnough, "%s", text)
		e.Remedy = "place the rank elsewhere, or share CPUs with --oversubscribe"
		if n.NoOverbook {
			e.Remedy = "place the rank elsewhere; on this node, ranks may not share CPUs"
		}
		return e
	}
	s.sharesCPUs = true
	return nil
}

// takeFixedCPUs takes the CPUs that the rank file names for a rank. It returns an error if another rank or
// job uses these CPUs and they may not be shared.
func (s *placement) takeFixedCPUs(rank, i int) *Error {
	n, fixed := &s.candidates[i], &s.req.FixedPlacements[rank]
	owners := s.ownersOn(i)
	cpus, err := owners.numbering.CPUs(fixed.Picks)
	if err != nil {
		return refuseFixedPlacement(fixed, CodeNotEnough, "rank %d: %s: %w", rank, n.Name, err)
	}
	for _, cpu := range cpus {
		slot, is := owners.slotOfCPU[cpu]
		if !is && n.Reserve > 0 {
			return refuseFixedPlacement(fixed, CodeNotEnough, "rank %d: CPU %d of %s is reserved; ranks may use %s", rank, cpu, n.Name, cmp.Or(idset.Text(slices.Sorted(maps.Keys(owners.slotOfCPU))), "no CPU"))
		}
		if is && n.busy[owners.slots[slot].Number] {
			if s.ignoresOtherJobs() {
				s.sharesCPUs = true
				continue
			}
			return refuseFixedPlacement(fixed, CodeNotEnough, "rank %d: CPU %d of %s is in use by another job", rank, cpu, n.Name)
		}
		if other, taken := owners.rankOfCPU[cpu]; taken {
			if err := s.allowSharing(fixed, n, fmt.Sprintf("the rank file gives CPU %d of %s to both rank %d and rank %d", cpu, n.Name, other, rank)); err != nil {
				return err
			}
		}
		owners.rankOfCPU[cpu] = rank
	}
	slices.Sort(cpus)
	s.fixedCPUs[rank] = cpus
	return nil
}

// hasFixedCPUs reports whether the rank file names CPUs, and not only nodes.
func (s *placement) hasFixedCPUs() bool {
	return len(s.req.FixedPlacements) > 0 && s.req.FixedPlacements[0].Picks != nil
}

// cpuOwners records which ranks of this job use which CPUs of one node.
type cpuOwners struct {
	numbering *pin.Numbering
	slots     []pin.Unit
	slotOfCPU map[int]int // by CPU
	rankOfCPU map[int]int // by CPU: the last rank that got it
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

// bindFixedCPUs binds the ranks on candidate i to the CPUs that the rank file names. The slots of a rank are all
// slots that contain one of its CPUs.
func (s *placement) bindFixedCPUs(i int, ranks []job.RankPlan) {
	n, owners := &s.candidates[i], s.ownersOn(i)
	for k := range ranks {
		cpus := s.fixedCPUs[ranks[k].Rank]
		var mine []int
		for _, cpu := range cpus {
			if slot, is := owners.slotOfCPU[cpu]; is {
				mine = append(mine, slot)
			}
		}
		slices.Sort(mine)
		assigned := pin.NewAssignment(owners.slots, slices.Compact(mine))
		assigned.CPUs = cpus
		s.bindRank(n, &ranks[k], assigned)
	}
}

// refuseFixedPlacement returns an error about one line of the rank file. The error shows that line.
func refuseFixedPlacement(fixed *job.FixedPlacement, code, format string, args ...any) *Error {
	reason := fmt.Errorf(format, args...).Error()
	if fixed.Position.File == "" {
		return &Error{Code: code, Text: reason}
	}
	m := fixed.Position
	at := &hostlist.SyntaxError{File: m.File, Line: m.Line, Col: m.Col, Width: m.Width, Source: m.Source, Reason: reason}
	return &Error{Code: code, Text: at.Where() + ": " + reason, InputError: at}
}
