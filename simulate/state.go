/*
Package simulate is the JSON of placement.md section 9: a cluster in a file goes in, a
plan comes out.

	file --Parse--> State --Input--> psi.Read --Request--> plan.Make --Write--> JSON

So a user's case can be told, kept and replayed without any node. The decisions are
those of a real run, made by the same code (psi, plan); only the two formats are
here. Unknown fields of the input are ignored.
*/
package simulate

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan"
	"remshell/psi"
)

// A State is a cluster at one time, and a request.
type State struct {
	Nodes      []job.Node // ascending by ID
	Sort       string     // PSINodesSort
	Env        map[string]*string
	Files      map[string]string // nil: the real ones
	Flags      psi.Flags
	NP         string
	User       job.User
	QueueAhead int

	Rules  job.SelectionRules
	Waited time.Duration // as job.Snapshot has it

	LocalOnly       bool                 // this machine alone: it is shared if need be (PLACE-4)
	FixedPlacements []job.FixedPlacement // where each rank was told to go; nil: nowhere
	Layout          pin.Layout
	GPUs            int // as job.RankNeeds has it
}

// NodeDefs are the configured nodes.
func (s *State) NodeDefs() []job.NodeDef {
	defs := make([]job.NodeDef, len(s.Nodes))
	for i := range s.Nodes {
		defs[i] = s.Nodes[i].NodeDef
	}
	return defs
}

// PSIInput is what psi reads of the state. The environment and the files of the state
// take the place of the real ones; flags are those of the command line, which beat
// the state's; np too, if it is given.
func (s *State) PSIInput(np string, flags psi.Flags, env func(string) (string, bool), open func(string) (string, error)) psi.Input {
	in := psi.Input{NP: cmp.Or(np, s.NP), Nodes: s.NodeDefs(), Sort: s.Sort, Env: env, Open: open, Flags: mergeFlags(flags, s.Flags),
		Rules: s.Rules, User: s.User, RanksPlaced: s.FixedPlacements != nil}
	if s.Env != nil {
		in.Env = func(name string) (string, bool) {
			value := s.Env[name]
			if value == nil {
				return "", false
			}
			return *value, true
		}
	}
	if s.Files != nil {
		in.Open = func(name string) (string, error) {
			text, there := s.Files[name]
			if !there {
				return "", fs.ErrNotExist
			}
			return text, nil
		}
	}
	return in
}

// mergeFlags takes each flag from where it is given first.
func mergeFlags(a, b psi.Flags) psi.Flags {
	return psi.Flags{
		Nodes: cmp.Or(a.Nodes, b.Nodes), Sort: cmp.Or(a.Sort, b.Sort), Features: cmp.Or(a.Features, b.Features),
		CPUMap: cmp.Or(a.CPUMap, b.CPUMap), TPP: cmp.Or(a.TPP, b.TPP), PPN: cmp.Or(a.PPN, b.PPN),
		HostsUnique: cmp.Or(a.HostsUnique, b.HostsUnique), Exclusive: cmp.Or(a.Exclusive, b.Exclusive),
		Overbook: cmp.Or(a.Overbook, b.Overbook), Oversubscribe: a.Oversubscribe || b.Oversubscribe, Loop: cmp.Or(a.Loop, b.Loop), Wait: cmp.Or(a.Wait, b.Wait),
		Pin: cmp.Or(a.Pin, b.Pin), MemBind: cmp.Or(a.MemBind, b.MemBind),
		SelectionFlags: a.SelectionFlags.WithDefaults(b.SelectionFlags),
	}
}

// An Outcome is the answer to a state: a plan, a place in the queue, or an error.
type Outcome struct {
	Plan     job.Plan
	Threads  int
	Warnings []job.Note
	Err      error // *psi.Error or *plan.Error

	Request  job.Request // what was asked, and what was seen, as far as it came to that
	Snapshot job.Snapshot
}

// HasPlan reports whether there is a plan to start.
func (o *Outcome) HasPlan() bool { return o.Err == nil }

// Decide answers a state.
func (s *State) Decide(in psi.Input) Outcome {
	req, warnings, err := s.Request(in)
	if err != nil {
		return Outcome{Warnings: warnings, Err: err}
	}
	return Decide(req, s.Snapshot(), warnings)
}

// Decide answers a request of one part.
func Decide(req job.Request, snap job.Snapshot, warnings []job.Note) Outcome {
	p, err := plan.Make(req, snap)
	o := OutcomeOf(req, snap, p, warnings)
	o.Err = err
	return o
}

// OutcomeOf is the outcome of a request that was planned already.
func OutcomeOf(req job.Request, snap job.Snapshot, p job.Plan, warnings []job.Note) Outcome {
	return Outcome{Plan: p, Threads: max(1, req.Apps[0].CPUsPerRank), Warnings: append(slices.Clone(warnings), p.Notes...),
		Request: req, Snapshot: snap}
}

// Request is what the state and the input ask for, with the warnings of that.
func (s *State) Request(in psi.Input) (job.Request, []job.Note, error) {
	choice, err := psi.Read(in)
	choice.Layout, choice.GPUs = s.Layout, s.GPUs
	if err == nil {
		err = psi.CheckConflicts([]job.RankNeeds{choice.RankNeeds}, s.Layout, s.FixedPlacements != nil)
	}
	return job.Request{
		User: s.User, Nodes: choice.Nodes, HostEntries: choice.Entries, Placement: choice.Placement, LocalOnly: s.LocalOnly, FixedPlacements: s.FixedPlacements,
		Apps: []job.App{{N: digitsValue(in.NP), RankNeeds: choice.RankNeeds}},
	}, choice.Warnings, err
}

// Snapshot is what the state knows of the nodes.
func (s *State) Snapshot() job.Snapshot {
	return job.Snapshot{Nodes: slices.Clone(s.Nodes), Ahead: s.QueueAhead, Waited: s.Waited}
}

// digitsValue is the value of digits that psi has checked.
func digitsValue(digits string) int {
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// stateError is the error about a file that is no cluster state.
func stateError(text string) error {
	return &psi.Error{Code: "bad-state", Problem: "cluster state: " + text}
}

// ReadError is the outcome of a state that cannot even be read.
func ReadError(err error) Outcome {
	var known *psi.Error
	if !errors.As(err, &known) {
		err = stateError(err.Error())
	}
	return Outcome{Err: err}
}

// sortByID orders nodes: their order in the file does not matter (9.3).
func sortByID(nodes []job.Node) {
	slices.SortFunc(nodes, func(a, b job.Node) int { return cmp.Compare(a.ID, b.ID) })
}
