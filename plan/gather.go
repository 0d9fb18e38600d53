package plan

import (
	"errors"
	"slices"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
)

// A site is a node of the list with what is known of it. Nothing here changes while
// ranks are placed.
type site struct {
	job.Node
	source  int      // index into Snapshot.Nodes; -1: no probe
	names   []string // its own, and those joined to it (HOST-8)
	busy    pin.Busy
	free    int       // F: slots that nobody has
	crowded bool      // what the job itself holds there counts as free
	gpus    []gpu.GPU // that nobody has
}

// gather joins the candidates with what their probes found, and turns that are two
// names of one machine with one another. turns are indices into sites; at is the site
// of a candidate.
func gather(req job.Request, snap job.Snapshot) (sites []site, turns, at []int, notes []job.Note) {
	seen := make(map[string]int, len(snap.Nodes)) // index by name
	for i, n := range snap.Nodes {
		seen[n.Name] = i
	}
	failed := make(map[string]error)
	for _, f := range snap.Failed {
		failed[f.Node] = f.Err
	}
	at = make([]int, len(req.Nodes))
	joined := make([]bool, len(req.Nodes))
	first := make(map[string]int) // site by identity
	for i, def := range req.Nodes {
		s := look(def, seen, failed, snap)
		if k, same := first[s.Identity]; same && s.Identity != "" {
			sites[k].join(s)
			at[i], joined[i] = k, true
			continue
		}
		first[s.Identity], at[i] = len(sites), len(sites)
		sites = append(sites, s)
	}
	for i := range sites {
		sites[i].crowded = req.Crowd && !req.Forbid && !sites[i].NoOverbook
		sites[i].count()
		if len(sites[i].names) > 1 {
			notes = append(notes, sameMachine(sites[i].names))
		}
	}
	return sites, turnsOf(req, at, joined), at, notes
}

// look is a candidate as it was seen, if it was.
func look(def job.NodeDef, seen map[string]int, failed map[string]error, snap job.Snapshot) site {
	s := site{source: -1, names: []string{def.Name}}
	if i, ok := seen[def.Name]; ok {
		s.Node, s.source = snap.Nodes[i], i
		s.NodeDef = def
		return s
	}
	s.Node = job.Node{NodeDef: def, Down: "not asked"}
	if err := failed[def.Name]; err != nil {
		s.Down = reasonOf(err)
	}
	return s
}

// reasonOf is the text of an error, without the name of its host if it knows how.
func reasonOf(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}

// join adds another name of the same machine: the first name stays, slots and limits
// that were written down add up (HOST-8).
func (s *site) join(other site) {
	s.Slots += other.Slots
	s.MaxSlots += other.MaxSlots
	s.names = append(s.names, other.Name)
}

// count finds the free slots: S minus busy units, with padding (section 0).
func (s *site) count() {
	size, held, own := s.Size(), s.Busy, s.Own
	if s.crowded {
		held, own = s.ofOthers(), 0
	}
	if s.Procs > 0 || len(held) > 0 {
		slots := pin.Slots(s.Topology.List(s.CountThreads), s.CPUMap)
		s.busy = pin.Taken(slots, held, s.Procs)
		if s.Seated > 0 { // where they sit is known: others' CPUs need not be guessed for them
			s.busy = pin.Taken(slots, held, 0)
			s.busy = pin.Taken(slots, held, len(s.busy)+s.Procs-s.Seated)
		}
	}
	s.free = max(0, size-max(len(s.busy), own)) // there may be more slots than CPUs
	s.gpus = s.offered()
}

// ofOthers are the busy CPUs but for those of the job itself.
func (s *site) ofOthers() []int {
	return slices.DeleteFunc(slices.Clone(s.Busy), func(cpu int) bool { return slices.Contains(s.Mine, cpu) })
}

// turnsOf are the turns as sites. A name that was joined to another has none, unless that one
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
	first := make([]bool, len(req.Nodes)) // by site: its first name has a turn
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

// nodesOf are the nodes of the sites.
func nodesOf(sites []site) []job.Node {
	nodes := make([]job.Node, len(sites))
	for i := range sites {
		nodes[i] = sites[i].Node
	}
	return nodes
}

// distinct lists each site once, in the order of its first turn.
func distinct(turns []int, sites int) []int {
	seen := make([]bool, sites)
	var once []int
	for _, t := range turns {
		if !seen[t] {
			seen[t] = true
			once = append(once, t)
		}
	}
	return once
}

// ideal is the site with nobody on it and reachable (6.2).
func (s site) ideal() site {
	s.Down, s.Use, s.busy = "", job.Use{}, nil
	s.free = s.Size()
	s.gpus = s.offered()
	return s
}

// isOne reports whether the site is one of some hosts, nil: of all; see setOf.
func (s *site) isOne(hosts map[string]bool) bool {
	return hosts == nil || slices.ContainsFunc(s.names, func(n string) bool { return hosts[n] })
}
