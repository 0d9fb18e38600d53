package plan

import (
	"cmp"
	"slices"

	"remshell/fault"
	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
)

// A candidate is a node of the list with what is known of it. Nothing here changes while
// ranks are placed.
type candidate struct {
	job.Node
	source  int      // index into Snapshot.Nodes; -1: no probe
	names   []string // its own, and those joined to it (HOST-8)
	busy    pin.Busy
	free    int       // F: slots that nobody has
	crowded bool      // CPUs in Mine count as free
	gpus    []gpu.GPU // that nobody has
	absent  bool      // it could not be reached when it was looked at
	entrance
	capacity int  // CPUs for the width of a gate, whatever the job says of them
	ownMost  bool // MaxProcs is its own administrator's word, and stricter than the cluster's
	loose    bool // its ranks are not bound, since others claim CPUs that we were granted (RM-20)
}

// join joins the candidates with what their probes found, and turns that are two
// names of one machine with one another.
func join(req job.Request, snap job.Snapshot) (p problem, notes []job.Note) {
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
		s := asSeen(def, seen, failed, snap)
		if k, same := first[s.Identity]; same && s.Identity != "" {
			candidates[k].join(s)
			at[i], joined[i] = k, true
			continue
		}
		first[s.Identity], at[i] = len(candidates), len(candidates)
		candidates = append(candidates, s)
	}
	for i := range candidates {
		candidates[i].divide(req)
		candidates[i].crowded = req.Crowd && !req.Forbid && !candidates[i].NoOverbook
		candidates[i].absent = candidates[i].Down != ""
		candidates[i].count()
		if len(candidates[i].names) > 1 {
			notes = append(notes, sameMachine(candidates[i].names))
		}
	}
	p = problem{req: req, candidates: candidates, turns: turnsOf(req, at, joined), of: at, waited: snap.Waited}
	p.enter()
	return p, notes
}

// notAsked is why a candidate cannot be used whose helper has not been asked.
const notAsked = "not asked"

// asSeen is a candidate as it was seen, if it was.
func asSeen(def job.NodeDef, seen map[string]int, failed map[string]error, snap job.Snapshot) candidate {
	s := candidate{source: -1, names: []string{def.Name}}
	if i, ok := seen[def.Name]; ok {
		s.Node, s.source = snap.Nodes[i], i
		s.NodeDef = def
		s.rule(snap.Nodes[i].Policy)
		return s
	}
	s.Node = job.Node{NodeDef: def, Down: notAsked}
	if err := failed[def.Name]; err != nil {
		s.Down = fault.Reason(err)
	}
	return s
}

// rule adds what the node's own administrator says, of which the request does not know.
func (s *candidate) rule(own job.Policy) {
	s.Closed = cmp.Or(own.Closed, s.Closed)
	if own.MaxProcs != nil && (s.MaxProcs == nil || *own.MaxProcs < *s.MaxProcs) {
		s.MaxProcs, s.ownMost = own.MaxProcs, true
	}
}

// join adds another name of the same machine: the first name stays, slots and limits
// that were written down add up (HOST-8).
func (s *candidate) join(other candidate) {
	s.Slots += other.Slots
	s.MaxSlots += other.MaxSlots
	s.names = append(s.names, other.Name)
}

// count finds the free slots: S minus busy units, with padding (section 0).
func (s *candidate) count() {
	size, held, own := s.Size(), s.Busy, s.Own
	if s.crowded {
		held, own = s.ofOthers(), 0
	}
	if s.Procs > 0 || len(held) > 0 {
		s.busy = s.taken(held, s.Procs, s.Seated)
	}
	s.free = max(0, size-max(s.lost(), own)) // there may be more slots than CPUs
	s.gpus = s.offered()
}

// ofOthers are the busy CPUs but for those of the job itself.
func (s *candidate) ofOthers() []int {
	return slices.DeleteFunc(slices.Clone(s.Busy), func(cpu int) bool { return slices.Contains(s.Mine, cpu) })
}

// turnsOf are the turns as candidates. A name that was joined to another has none, unless that one
// has none either: a spawn may name a node by another name than the job does.
func turnsOf(req job.Request, at []int, joined []bool) []int {
	var turns []int
	if req.Turns == nil {
		for i := range req.Nodes {
			if !joined[i] {
				turns = append(turns, at[i])
			}
		}
		return turns
	}
	first := make([]bool, len(req.Nodes)) // by candidate: its first name has a turn
	for _, i := range req.Turns {
		first[at[i]] = first[at[i]] || !joined[i]
	}
	for _, i := range req.Turns {
		if !joined[i] || !first[at[i]] {
			turns = append(turns, at[i])
		}
	}
	return turns
}

// distinct lists each candidate once, in the order of its first turn.
func distinct(turns []int, candidates int) []int {
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

// ideal is the candidate with nobody on it and reachable (6.2).
func (s candidate) ideal() candidate {
	s.Down, s.Use, s.Beyond, s.busy = "", job.Use{}, job.Use{}, nil
	s.free = s.Size()
	s.Memory.Available = s.Memory.Total
	s.Memory.Huge.Free = s.Memory.Huge.Total
	s.gpus = s.offered()
	return s
}

// isOne reports whether the candidate is one of some hosts, nil: of all; see setOf.
func (s *candidate) isOne(hosts map[string]bool) bool {
	return hosts == nil || slices.ContainsFunc(s.names, func(n string) bool { return hosts[n] })
}
