package plan

import (
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/usererr"
)

// A candidate is a node of the request, together with the result of its probe and the rules that apply to the node. It
// does not change while ranks are placed.
type candidate struct {
	job.Node
	snapshotIndex int      // index into Snapshot.Nodes; -1 if the node was not probed
	names         []string // its own name, and other names of the same machine (HOST-8)
	busy          pin.BusyUnits
	free          int       // number of free slots (F in placement.md)
	sharesOwnCPUs bool      // the CPUs in ShareableCPUs count as free
	gpus          []gpu.GPU // free GPUs
	unreachable   bool      // it could not be reached when it was probed
	regionAccess
	gateCPUs         int  // CPUs that count for the width of a gate: all but those that the cluster file reserves
	maxProcsFromNode bool // MaxProcs is from the node's own administrator, whose limit is below that of the cluster file
	unboundByClaims  bool // its ranks are not bound, because other jobs have claimed CPUs that the batch system granted to this job (RM-20)
}

// joinNames builds the candidates from the request and the results of the probes. If one machine has two names in the
// request, there is one candidate for both names, and joinNames returns a note (rule HOST-8).
func joinNames(req job.Request, snap job.Snapshot) (p problem, notes []job.Note) {
	seen := make(map[string]int, len(snap.Nodes)) // index into snap.Nodes by name
	for i, n := range snap.Nodes {
		seen[n.Name] = i
	}
	failed := make(map[string]error)
	for _, f := range snap.Failed {
		failed[f.Node] = f.Err
	}
	var candidates []candidate
	at := make([]int, len(req.Nodes)) // candidate by index into req.Nodes
	joined := make([]bool, len(req.Nodes))
	first := make(map[string]int) // candidate by identity of the machine
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

// notProbed is the reason for excluding a node to which mpiexec has not connected.
const notProbed = "not asked"

// candidateFromProbe returns a candidate with the result of its probe. If there is no probe, the candidate's
// field Down says why.
func candidateFromProbe(def job.NodeDef, probed map[string]int, failed map[string]error, snap job.Snapshot) candidate {
	s := candidate{snapshotIndex: -1, names: []string{def.Name}}
	if i, ok := probed[def.Name]; ok {
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

// applyNodeRules applies the rules that the node's administrator has set on the node (node.toml). The request does
// not contain these rules.
func (s *candidate) applyNodeRules(policy job.NodePolicy) {
	if policy.ClosedWhy != "" {
		s.ClosedWhy, s.Drained = policy.ClosedWhy, policy.Drained
	}
	if policy.MaxProcs != nil && (s.MaxProcs == nil || *policy.MaxProcs < *s.MaxProcs) {
		s.MaxProcs, s.maxProcsFromNode = policy.MaxProcs, true
	}
}

// addName adds another name of the same machine to the candidate, which keeps its first name. Slots and
// limits that the user has written for the two names are added up (rule HOST-8).
func (s *candidate) addName(other candidate) {
	s.Slots += other.Slots
	s.MaxSlots += other.MaxSlots
	s.names = append(s.names, other.Name)
}

// countFree computes the busy units, free slots and free GPUs of the candidate. The number of free slots is
// the number of slots minus the number of busy units (placement.md 0).
func (s *candidate) countFree() {
	size, held, own := s.SlotCount(), s.BusyCPUs, s.OwnRanks
	if s.sharesOwnCPUs {
		held, own = s.busyCPUsOfOthers(), 0
	}
	if s.Ranks > 0 || len(held) > 0 {
		s.busy = s.busyUnits(held, s.Ranks, s.BoundRanks)
	}
	s.free = max(0, size-max(s.slotsOfOthers(), own)) // more slots than CPUs may be written
	s.gpus = s.freeGPUs()
}

// busyCPUsOfOthers returns the CPUs that other jobs use, except those in ShareableCPUs.
func (s *candidate) busyCPUsOfOthers() []int {
	return slices.DeleteFunc(slices.Clone(s.BusyCPUs), func(cpu int) bool { return slices.Contains(s.ShareableCPUs, cpu) })
}

// entriesOf returns, for each host entry, the index of its candidate. at contains this index for each host of the
// request. joined says, for each host, whether it is a second name for the machine of an earlier host. If both names of
// a machine have entries, those of the second name are left out.
func entriesOf(req job.Request, at []int, joined []bool) []int {
	var entries []int
	if req.HostEntries == nil {
		for i := range req.Nodes {
			if !joined[i] {
				entries = append(entries, at[i])
			}
		}
		return entries
	}
	first := make([]bool, len(req.Nodes)) // by candidate: its first name has a host entry
	for _, i := range req.HostEntries {
		first[at[i]] = first[at[i]] || !joined[i]
	}
	for _, i := range req.HostEntries {
		if !joined[i] || !first[at[i]] {
			entries = append(entries, at[i])
		}
	}
	return entries
}

// distinctCandidates returns each candidate in entries once, in the order of the candidates' first host entries.
func distinctCandidates(entries []int, candidates int) []int {
	seen := make([]bool, candidates)
	var once []int
	for _, t := range entries {
		if !seen[t] {
			seen[t] = true
			once = append(once, t)
		}
	}
	return once
}

// whenIdle returns the candidate as it would be if mpiexec could connect to the node and no job used the node
// (placement.md 6.2).
func (s candidate) whenIdle() candidate {
	s.Down, s.Occupancy, s.OutsideOccupancy, s.busy = "", job.Occupancy{}, job.Occupancy{}, nil
	s.free = s.SlotCount()
	s.Memory.Available = s.Memory.Total
	s.Memory.HugePages.Free = s.Memory.HugePages.Total
	s.gpus = s.freeGPUs()
	return s
}

// isNamedIn reports whether hosts contains one of the candidate's names. A nil set contains every host (see
// nameSet).
func (s *candidate) isNamedIn(hosts map[string]bool) bool {
	return hosts == nil || slices.ContainsFunc(s.names, func(n string) bool { return hosts[n] })
}
