package plan

import (
	"cmp"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/usererr"
)

// A candidate is a node of the list with what is known of it. Nothing here changes while
// ranks are placed.
type candidate struct {
	job.Node
	snapshotIndex int      // index into Snapshot.Nodes; -1: no probe
	names         []string // its own, and those joined to it (HOST-8)
	busy          pin.BusyUnits
	free          int       // F: slots that nobody has
	sharesOwnCPUs bool      // CPUs in Mine count as free
	gpus          []gpu.GPU // that nobody has
	unreachable   bool      // it could not be reached when it was looked at
	regionAccess
	gateCPUs         int  // CPUs for the width of a gate, whatever the job says of them
	maxProcsFromNode bool // MaxProcs is its own administrator's word, and stricter than the cluster's
	unboundByClaims  bool // its ranks are not bound, since others claim CPUs that we were granted (RM-20)
}

// joinNames joins the candidates with what their probes found, and turns that are two
// names of one machine with one another.
func joinNames(req job.Request, snap job.Snapshot) (p problem, notes []job.Note) {
	seen := make(map[string]int, len(snap.Nodes)) // index by name
	for i, n := range snap.Nodes {
		seen[n.Name] = i
	}
	failed := make(map[string]error)
	for _, f := range snap.Failed {
		failed[f.Node] = f.Err
	}
	var candidates []candidate
	at := make([]int, len(req.Nodes)) // the candidate of a node of the request
	joined := make([]bool, len(req.Nodes))
	first := make(map[string]int) // candidate by identity
	for i, def := range req.Nodes {
		s := candidateFromProbe(def, seen, failed, snap)
		if k, same := first[s.Identity]; same && s.Identity != "" {
			candidates[k].addName(s)
			at[i], joined[i] = k, true
			continue
		}
		first[s.Identity], at[i] = len(candidates), len(candidates)
		candidates = append(candidates, s)
	}
	for i := range candidates {
		candidates[i].applySlotRules(req)
		candidates[i].sharesOwnCPUs = req.ShareOwnCPUs && !req.NoOversubscribe && !candidates[i].NoOverbook
		candidates[i].unreachable = candidates[i].Down != ""
		candidates[i].countFree()
		if len(candidates[i].names) > 1 {
			notes = append(notes, sameMachineNote(candidates[i].names))
		}
	}
	p = problem{req: req, candidates: candidates, entries: entriesOf(req, at, joined), candidateOf: at, waited: snap.Waited}
	p.judgeRegions()
	return p, notes
}

// notProbed is why a candidate cannot be used whose helper has not been asked.
const notProbed = "not asked"

// candidateFromProbe is a candidate as it was seen, if it was.
func candidateFromProbe(def job.NodeDef, seen map[string]int, failed map[string]error, snap job.Snapshot) candidate {
	s := candidate{snapshotIndex: -1, names: []string{def.Name}}
	if i, ok := seen[def.Name]; ok {
		s.Node, s.snapshotIndex = snap.Nodes[i], i
		s.NodeDef = def
		s.applyNodeRules(snap.Nodes[i].NodePolicy)
		return s
	}
	s.Node = job.Node{NodeDef: def, Down: notProbed}
	if err := failed[def.Name]; err != nil {
		s.Down = usererr.Reason(err)
	}
	return s
}

// applyNodeRules adds what the node's own administrator says, of which the request does not know.
func (s *candidate) applyNodeRules(own job.NodePolicy) {
	s.ClosedWhy = cmp.Or(own.ClosedWhy, s.ClosedWhy)
	if own.MaxProcs != nil && (s.MaxProcs == nil || *own.MaxProcs < *s.MaxProcs) {
		s.MaxProcs, s.maxProcsFromNode = own.MaxProcs, true
	}
}

// addName adds another name of the same machine: the first name stays, slots and limits
// that were written down add up (HOST-8).
func (s *candidate) addName(other candidate) {
	s.Slots += other.Slots
	s.MaxSlots += other.MaxSlots
	s.names = append(s.names, other.Name)
}

// countFree finds the free slots: S minus busy units, with padding (section 0).
func (s *candidate) countFree() {
	size, held, own := s.SlotCount(), s.BusyCPUs, s.OwnRanks
	if s.sharesOwnCPUs {
		held, own = s.busyCPUsOfOthers(), 0
	}
	if s.Ranks > 0 || len(held) > 0 {
		s.busy = s.busyUnits(held, s.Ranks, s.BoundRanks)
	}
	s.free = max(0, size-max(s.slotsOfOthers(), own)) // there may be more slots than CPUs
	s.gpus = s.freeGPUs()
}

// busyCPUsOfOthers are the busy CPUs but for those of the job itself.
func (s *candidate) busyCPUsOfOthers() []int {
	return slices.DeleteFunc(slices.Clone(s.BusyCPUs), func(cpu int) bool { return slices.Contains(s.ShareableCPUs, cpu) })
}

// entriesOf are the turns as candidates. A name that was joined to another has none, unless that one
// has none either: a spawn may name a node by another name than the job does.
func entriesOf(req job.Request, at []int, joined []bool) []int {
	var turns []int
	if req.HostEntries == nil {
		for i := range req.Nodes {
			if !joined[i] {
				turns = append(turns, at[i])
			}
		}
		return turns
	}
	first := make([]bool, len(req.Nodes)) // by candidate: its first name has a turn
	for _, i := range req.HostEntries {
		first[at[i]] = first[at[i]] || !joined[i]
	}
	for _, i := range req.HostEntries {
		if !joined[i] || !first[at[i]] {
			turns = append(turns, at[i])
		}
	}
	return turns
}

// distinctCandidates lists each candidate once, in the order of its first turn.
func distinctCandidates(turns []int, candidates int) []int {
	seen := make([]bool, candidates)
	var once []int
	for _, t := range turns {
		if !seen[t] {
			seen[t] = true
			once = append(once, t)
		}
	}
	return once
}

// whenIdle is the candidate with nobody on it and reachable (6.2).
func (s candidate) whenIdle() candidate {
	s.Down, s.Occupancy, s.OutsideOccupancy, s.busy = "", job.Occupancy{}, job.Occupancy{}, nil
	s.free = s.SlotCount()
	s.Memory.Available = s.Memory.Total
	s.Memory.HugePages.Free = s.Memory.HugePages.Total
	s.gpus = s.freeGPUs()
	return s
}

// isNamedIn reports whether the candidate is one of some hosts, nil: of all; see setOf.
func (s *candidate) isNamedIn(hosts map[string]bool) bool {
	return hosts == nil || slices.ContainsFunc(s.names, func(n string) bool { return hosts[n] })
}
