package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/text"
)

// This file places gangs (--gang): jobs that take turns on the same CPUs. Each gang has a party, which is the number of
// its turn. It must not share a CPU with a gang of the same party. It gets the first of these CPUs that suffice:
//
//	free CPUs
//	CPUs with at most one gang: as party 0, then as party 2, 1 or 3
//	CPUs with at most two gangs, and so on

// solveForGang places the ranks of a gang, which is a job that takes turns with other jobs on the same CPUs. It prefers
// free CPUs, and then CPUs that few gangs use. party is the number of the turn in which the gang runs. solved is the
// problem that was solved or, if no problem could be solved, the last problem that was tried.
func (p problem) solveForGang() (solved problem, found solution, party int, failed *Error) {
	order, most := p.partyOrder(), p.mostGangs()
	solved = p.forParty(order[0], 0)
	if found, failed = solved.solve(); failed == nil {
		return solved, found, order[0], nil
	}
	for gangs := 1; gangs <= most; gangs++ {
		for _, party := range order {
			solved = p.forParty(party, gangs)
			if found, failed = solved.solve(); failed == nil {
				return solved, found, party, nil
			}
		}
	}
	return solved, found, 0, failed
}

// partyOrder returns the parties in the order in which they are tried. A party is the number of the turn in which a
// gang runs. partyOrder reverses the bits of the numbers, as in 0 2 1 3, so that two gangs get turns that are far
// apart. A spawn uses only the party of its job.
func (p problem) partyOrder() (order []int) {
	if own := p.req.JobGang; own != nil {
		return []int{own.Party}
	}
	parties := 1
	for i := range p.candidates {
		parties = max(parties, p.candidates[i].Gang.Parties)
	}
	width := bits.Len(uint(parties - 1))
	for i := range 1 << width {
		if party := int(bits.Reverse64(uint64(i)) >> (64 - width)); party < parties {
			order = append(order, party)
		}
	}
	return order
}

// mostGangs returns the largest number of gangs (jobs that take turns) that now share one CPU.
func (p problem) mostGangs() (largest int) {
	for i := range p.candidates {
		for _, gangs := range p.candidates[i].gangsOnCPU() {
			largest = max(largest, gangs)
		}
	}
	return largest
}

// gangsOnCPU returns the number of gangs (jobs that take turns) on each CPU that only gangs use.
func (s *candidate) gangsOnCPU() map[int]int {
	count := make(map[int]int)
	for _, g := range s.GangCPUs {
		for _, cpu := range g.CPUs {
			count[cpu]++
		}
	}
	return count
}

// cpusFullOfGangs returns how many CPUs of the node cannot be used by a further gang, because other gangs use every
// turn on these CPUs.
func (s *candidate) cpusFullOfGangs() int {
	if s.Gang.Parties == 0 {
		return 0
	}
	gangs := s.gangsOnCPU()
	cpus := slices.DeleteFunc(s.allCPUs(), func(cpu int) bool { return gangs[cpu] == 0 })
	for party := range s.Gang.Parties {
		cpus = slices.DeleteFunc(cpus, idset.Set(s.CPUsInTurns(party)).Has)
	}
	return len(cpus)
}

// describeFullGangs returns the end of a sentence about the CPUs that a further gang cannot use. It returns "" if there
// are none.
func (s *candidate) describeFullGangs() string {
	which := "each"
	switch full := s.cpusFullOfGangs(); {
	case full == 0:
		return ""
	case s.SlotCount() == 1:
		which = "it"
	case full == 1:
		which = "1 of them"
	case full < s.SlotCount():
		return fmt.Sprintf("; %d of them have the maximum of %s", full, text.Count(s.Gang.Parties, "gang"))
	}
	return fmt.Sprintf("; %s has the maximum of %s", which, text.Count(s.Gang.Parties, "gang"))
}

// adviseAboutGangs changes the hint of failed if nodes were rejected because their CPUs have the maximum number of
// gangs.
func (p problem) adviseAboutGangs(failed *Error, rejected []job.Note) *Error {
	if failed == nil || failed.Code != CodeNoNodes || failed.textNamesRejected {
		return failed
	}
	const maxNamed = 4 // hosts in the hint
	var full []string
	for _, r := range rejected {
		if r.Code == "cpus-full" && slices.ContainsFunc(p.candidates, func(s candidate) bool { return s.Name == r.Node && s.cpusFullOfGangs() > 0 }) {
			full = append(full, r.Node)
		}
	}
	if len(full) > 0 {
		failed.Remedy = "use other hosts, or end one of these gangs; to list them: mpiexec --ps " + strings.Join(full[:min(len(full), maxNamed)], " ")
	}
	return failed
}

// forParty returns the problem for a gang that runs in turn number party. In that problem, a CPU is also free if at
// most maxGangs gangs use it and all of them run in other turns.
func (p problem) forParty(party, maxGangs int) problem {
	p.candidates = slices.Clone(p.candidates)
	for i := range p.candidates {
		s := &p.candidates[i]
		gangs, open := s.gangsOnCPU(), s.CPUsInTurns(party)
		s.BusyCPUs = slices.DeleteFunc(slices.Clone(s.BusyCPUs), func(cpu int) bool { return slices.Contains(open, cpu) && gangs[cpu] <= maxGangs })
		if len(s.BusyCPUs) > 0 && !bindsRanks(p.req, s) {
			s.BusyCPUs = s.allCPUs()
		}
		s.countFree()
	}
	return p
}

// allCPUs returns all CPUs of the node that ranks may use, in ascending order.
func (s *candidate) allCPUs() []int { return s.Topology.UsableCPUs() }

// claimAllCPUs makes unbound ranks of a gang claim all CPUs of their nodes, because they may run on any of
// these CPUs.
func (s *placement) claimAllCPUs(plans []job.NodePlan) {
	for _, np := range plans {
		n := s.candidateOfPlan(np)
		if !bindsRanks(s.req, n) || slices.ContainsFunc(np.Ranks, func(r job.RankPlan) bool { return r.CPUs == nil }) {
			all := *np.Ranks[0].RankResources
			all.ClaimedCPUs = n.allCPUs()
			np.Ranks[0].RankResources = &all
		}
	}
}

// candidateOfPlan returns the candidate on which np places ranks.
func (s *placement) candidateOfPlan(np job.NodePlan) *candidate {
	return &s.candidates[s.assigned[np.Ranks[0].Rank].candidate]
}

// gangOf returns a description of this job as a gang (a job that takes turns with other jobs on the same CPUs), and the
// other gangs with which it shares CPUs. plans contains the ranks of this job. gangOf returns an error if the
// administrators of the nodes have configured gangs differently.
func (s *placement) gangOf(party int, plans []job.NodePlan) (*job.Gang, []job.GangJob, *Error) {
	first := s.candidateOfPlan(plans[0])
	terms := first.Gang
	if of := s.req.JobGang; of != nil && of.Parties != terms.Parties {
		return nil, nil, &Error{Code: CodeGang, Permanent: true, Text: fmt.Sprintf("--gang: this job needs [gang] with parties = %d, but %s has %s", of.Parties, first.Name, describeTerms(terms))}
	}
	var competitors []job.GangJob
	for _, np := range plans {
		n := s.candidateOfPlan(np)
		if n.Gang != terms {
			return nil, nil, &Error{Code: CodeGang, Permanent: true,
				Text:   fmt.Sprintf("--gang: the hosts have different [gang] settings: %s has %s, but %s has %s", first.Name, describeTerms(terms), n.Name, describeTerms(n.Gang)),
				Remedy: "use hosts with the same [gang] in /etc/remshell/cluster.toml, or ask their administrator to change it"}
		}
		for _, g := range n.GangCPUs {
			if !slices.Contains(competitors, g.GangJob) && slices.ContainsFunc(np.Ranks, func(r job.RankPlan) bool { return slices.ContainsFunc(r.ClaimedCPUs, idset.Set(g.CPUs).Has) }) {
				competitors = append(competitors, g.GangJob)
			}
		}
	}
	return &job.Gang{Party: party, GangTerms: terms}, competitors, nil
}

func describeTerms(t job.GangTerms) string {
	return fmt.Sprintf("parties = %d and slice = %v", t.Parties, t.Slice)
}

// gangMemoryLeft returns how many bytes of memory a gang (a job that takes turns with other jobs on the same CPUs) may
// use on the candidate. This is 90 % of the memory, less the larger of two values: what other gangs have requested, and
// what all processes use. The memory of stopped gangs counts, because they keep it. known is false if the node has no
// other gang, or its memory is unknown.
func (s *candidate) gangMemoryLeft() (bytes int64, known bool) {
	if total := s.Memory.Total; len(s.GangCPUs) > 0 && total > 0 {
		return total/10*9 - max(s.GangMemory, total-s.Memory.Available), true
	}
	return 0, false
}

// gangMemoryCheck rejects a node that has too little memory for another gang (a job that takes turns with other jobs on
// the same CPUs). Without --mem-per-rank, a gang is assumed to need the node's memory divided by the maximum number of
// gangs that take turns (the setting parties).
var gangMemoryCheck = nodeCheck{"memory", func(s *candidate, w *requirement) string {
	left, known := s.gangMemoryLeft()
	need := w.memoryPerRank
	if need == 0 {
		need = s.Memory.Total / int64(max(1, s.Gang.Parties))
	}
	if !w.gang || !known || need <= left {
		return ""
	}
	return fmt.Sprintf("this gang needs %d MB of memory, but the other gangs leave only %d MB; to request less, use --mem-per-rank", need>>20, max(0, left)>>20)
}}
