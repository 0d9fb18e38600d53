package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"remshell/job"
	"remshell/pin"
)

// bindRanks assigns slots, CPUs and NUMA nodes to every rank (placement.md 7). It returns a note for each node on which
// the user's CPU map cannot be applied. It also returns one for each node on which ranks are not bound, because another
// job has claimed CPUs that the batch system granted to this job.
func (s *placement) bindRanks(plans []job.NodePlan) (notes []job.Note, failed *Error) {
	for k := range plans {
		note, failed := s.bindNode(s.assigned[plans[k].Ranks[0].Rank].candidate, plans[k].Ranks)
		if note.Code != "" {
			notes = append(notes, note)
		}
		if failed != nil {
			return notes, failed
		}
		s.confineUnboundRanks(&s.candidates[s.assigned[plans[k].Ranks[0].Rank].candidate], plans[k].Ranks)
	}
	return notes, nil
}

// confineUnboundRanks restricts unbound ranks to the CPUs that a batch system has granted (rule RM-6).
// Without this, they could run on every CPU that their helper may use.
func (s *placement) confineUnboundRanks(n *candidate, ranks []job.RankPlan) {
	if !n.Confined {
		return
	}
	usable := n.Topology.UsableCPUs()
	for i := range ranks {
		if r := &ranks[i]; r.CPUs == nil {
			p := *r.RankResources
			p.CPUs = usable
			r.RankResources = s.portionCache.intern(p)
		}
	}
}

// bindNode binds all ranks on candidate i. note is for the user. If there is nothing to note, its Code is empty.
func (s *placement) bindNode(i int, ranks []job.RankPlan) (note job.Note, failed *Error) {
	n := &s.candidates[i]
	if s.hasFixedCPUs() {
		s.bindFixedCPUs(i, ranks)
		s.assignGPUs(n, ranks)
		return note, nil
	}
	cpuMap, note := s.cpuMapFor(n)
	if s.layout != nil {
		failed = s.bindMappedRanks(i, ranks)
		if n.unboundByClaims && note.Code == "" {
			note = n.claimedNote()
		}
		s.assignGPUs(n, ranks)
		return note, failed
	}
	slots := n.slotsInMapOrder(cpuMap)
	n.busy = n.avoidClaimedCPUs(slots, n.busy, s.slotDemand(ranks))
	if n.unboundByClaims && note.Code == "" {
		note = n.claimedNote()
	}
	mapped := len(s.req.CPUMap) > 0 && (note.Code == "" || note.Code == CodeClaimed) // the user's CPU map decides the order
	shared := s.sharesCPUs || s.slotDemand(ranks) > len(pin.FreeSlots(slots, n.busy))
	widths := s.slotsPerRank(n, ranks, slots)
	if s.gpuDemand(ranks) > 0 && !mapped && !shared {
		s.bindNearGPUs(n, ranks, slots, widths)
		return note, nil
	}
	s.bindRoundRobin(n, ranks, slots, widths)
	s.assignGPUs(n, ranks)
	return note, nil
}

// avoidClaimedCPUs returns the units that the ranks of a node must not use. These are the units in busy and the units
// that other jobs, outside this batch job, have claimed. demand is the number of slots that the ranks need. If fewer
// slots would remain, avoidClaimedCPUs returns only busy. The ranks then share CPUs with those jobs and are not bound
// (rule RM-20).
func (n *candidate) avoidClaimedCPUs(slots []pin.Unit, busy pin.BusyUnits, demand int) pin.BusyUnits {
	claimed := n.busyUnits(n.OutsideOccupancy.BusyCPUs, 0, 0)
	if len(claimed) == 0 {
		return busy
	}
	both := maps.Clone(claimed)
	maps.Copy(both, busy)
	if demand <= len(pin.FreeSlots(slots, both)) {
		return both
	}
	n.unboundByClaims = true
	return busy
}

// claimedNote returns a note saying that another job has claimed CPUs that the batch system has granted to this job.
func (n *candidate) claimedNote() job.Note {
	claimed := len(n.busyUnits(n.OutsideOccupancy.BusyCPUs, 0, 0))
	return job.Note{Code: CodeClaimed, Node: n.Name, ID: n.ID,
		Text: fmt.Sprintf("%s: job %s of %s uses %d of the %d CPUs that the batch system granted to this job; ranks on this host are not bound",
			n.Name, n.OutsideOccupancy.TopJob, n.OutsideOccupancy.TopUser, claimed, max(n.Slots, claimed))}
}

// cpuMapFor returns the CPU map of a node, which is the order in which ranks get the node's CPUs. It returns the user's
// map if the cluster file allows this on the node, and if the node has all CPUs in the map (placement.md 7.3).
// Otherwise it returns the node's own map. If the user's map is ignored, note says why.
func (s *placement) cpuMapFor(n *candidate) (cpuMap []int, note job.Note) {
	if len(s.req.CPUMap) == 0 {
		return n.CPUMap, note
	}
	note = job.Note{Node: n.Name, ID: n.ID}
	if !n.UserCPUMap {
		note.Code = CodeMapDenied
		note.Text = fmt.Sprintf("mpiexec ignores %s on %s, because the cluster file does not allow it (allowUserMap)", s.req.CPUMapOrigin, n.Name)
		return n.CPUMap, note
	}
	for _, number := range s.req.CPUMap {
		if !n.Topology.HasUnit(number, n.CountThreads) {
			note.Code = CodeMapTooLarge
			note.Text = fmt.Sprintf("mpiexec ignores %s on %s, because the host has no core %d", s.req.CPUMapOrigin, n.Name, number)
			return n.CPUMap, note
		}
	}
	return s.req.CPUMap, job.Note{}
}

// bindRoundRobin assigns the free slots of a node to its ranks, in the order of the ranks. widths contains the number
// of slots for each rank. If the slots do not suffice, bindRoundRobin starts again at the first slot. That happens if
// ranks share CPUs, or if the host entry has more slots than the node has CPUs (placement.md 7.2).
func (s *placement) bindRoundRobin(n *candidate, ranks []job.RankPlan, slots []pin.Unit, widths []int) {
	free := n.sortUnsharedFirst(slots, pin.FreeSlots(slots, n.busy))
	if len(free) == 0 {
		return
	}
	shared := s.sharesCPUs || s.slotDemand(ranks) > len(free)
	assignments := make(map[[2]int]pin.Assignment) // by first slot and width; used only if ranks share CPUs
	next := 0
	for i := range ranks {
		r := &ranks[i]
		width := min(widths[i], len(free))
		if shared {
			next = r.Local % (len(free) / width) * width
		}
		assigned, known := assignments[[2]int{next, width}]
		if !known {
			mine := free[next : next+width : next+width]
			slices.Sort(mine)
			assigned = pin.NewAssignment(slots, mine)
			if shared {
				assignments[[2]int{next, width}] = assigned
			}
		}
		next += width
		s.bindRank(n, r, assigned)
	}
}

// sortUnsharedFirst sorts free slots. Slots that this job does not use yet come first. If the job is a gang (it
// takes turns with other jobs on the same CPUs), the used and the unused slots are each sorted by the number of gangs
// that use them.
func (s *candidate) sortUnsharedFirst(slots []pin.Unit, free []int) []int {
	if gangs := s.gangsOnCPU(); len(gangs) > 0 {
		most := func(slot int) (most int) {
			for _, cpu := range slots[slot].CPUs {
				most = max(most, gangs[cpu])
			}
			return most
		}
		free = slices.Clone(free)
		slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(most(a), most(b)) })
	}
	if !s.sharesOwnCPUs {
		return free
	}
	mine := s.busyUnits(s.ShareableCPUs, 0, 0)
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(free), func(slot int) bool { return mine[slots[slot].Number] }),
		slices.DeleteFunc(slices.Clone(free), func(slot int) bool { return !mine[slots[slot].Number] }))
}

// bindRank sets the resources of a rank: its slots, the CPUs to which it is bound, and the NUMA nodes from which it
// gets memory (placement.md 7.4, 7.5).
func (s *placement) bindRank(n *candidate, r *job.RankPlan, assigned pin.Assignment) {
	p := job.RankResources{Slots: assigned.Slots, ClaimedCPUs: assigned.CPUs}
	if n.unboundByClaims {
		r.RankResources = s.portionCache.intern(p)
		return
	}
	if s.bindsRanksOn(n) && !assigned.Unbound {
		p.CPUs = assigned.CPUs
	}
	switch mem := s.req.Layout.Mem; {
	case s.req.Apps[r.App].NUMA.StrictMemory:
		p.Mems = assigned.Mems
	case s.req.NoMemBind || n.NoMemBind:
	case mem.Text == "":
		p.Mems = assigned.Mems
	case mem.Nodes != nil:
		p.Mems = mem.Nodes
	default:
		if p.MemMode = mem.Mode; mem.Mode == pin.Interleave {
			p.Mems = n.Topology.NUMANodes()
		}
	}
	r.RankResources = s.portionCache.intern(p)
}

// bindsRanksOn reports whether ranks on a candidate are bound to CPUs. The administrator's setting NoPin
// takes precedence, then the binding in the host entry, and then the request.
func (s *placement) bindsRanksOn(n *candidate) bool { return bindsRanks(s.req, n) }

func bindsRanks(req job.Request, n *candidate) bool {
	none := req.NoPin
	if n.Bind != nil {
		none = n.Bind.None
	}
	return !none && !n.NoPin
}

func (s *placement) threadsPerRank(r *job.RankPlan) int { return max(1, s.req.Apps[r.App].CPUsPerRank) }

// slotDemand returns how many slots the ranks of a node need.
func (s *placement) slotDemand(ranks []job.RankPlan) int {
	total := 0
	for i := range ranks {
		total += s.threadsPerRank(&ranks[i])
	}
	return total
}

// A portionSet stores each distinct RankResources of a plan only once. This saves memory if many ranks run on equal
// nodes.
type portionSet map[portionKey][]*job.RankResources

// A portionKey is a hash key for RankResources. Different RankResources may have the same key.
type portionKey struct{ slot, slots, cpu, cpus int }

// maxPortionsPerKey is the maximum number of RankResources that are stored under one key. If there are more, the
// nodes differ so much that storing each value only once does not save memory.
const maxPortionsPerKey = 8

// intern returns the stored RankResources that are equal to p. If none are equal, it returns a copy of p. It stores
// this copy, unless maxPortionsPerKey are already stored under the same key.
func (known portionSet) intern(p job.RankResources) *job.RankResources {
	key := portionKey{firstOrNone(p.Slots), len(p.Slots), firstOrNone(p.ClaimedCPUs), len(p.ClaimedCPUs)}
	for _, other := range known[key] {
		if other.MemMode == p.MemMode && equalNumbers(other.Slots, p.Slots) && equalNumbers(other.ClaimedCPUs, p.ClaimedCPUs) &&
			equalNumbers(other.CPUs, p.CPUs) && equalNumbers(other.Mems, p.Mems) {
			return other
		}
	}
	fresh := new(job.RankResources)
	*fresh = p
	if len(known[key]) < maxPortionsPerKey {
		known[key] = append(known[key], fresh)
	}
	return fresh
}

// equalNumbers reports whether two lists are equal. A nil list is not equal to an empty one.
func equalNumbers(a, b []int) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// firstOrNone returns the first number of a list, or -1 if the list is empty.
func firstOrNone(numbers []int) int {
	if len(numbers) == 0 {
		return -1
	}
	return numbers[0]
}
