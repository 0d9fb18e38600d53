/*
Package whatif is the JSON of placement.md section 9: a cluster in a file goes in, a
plan comes out.

	file --Parse--> State --Input--> psi.Read --Request--> plan.Make --Write--> JSON

So a user's case can be told, kept and replayed without any node. The decisions are
those of a real run, made by the same code (psi, plan); only the two formats are
here. Unknown fields of the input are ignored.
*/
package whatif

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
	Nodes []job.Node // ascending by ID
	Sort  string     // PSINodesSort
	Env   map[string]*string
	Files map[string]string // nil: the real ones
	Flags psi.Flags
	NP    string
	User  job.User
	Ahead int

	Rules  job.Rules
	Waited time.Duration // as job.Snapshot has it

	TryOut bool       // this machine alone: it is shared if need be (PLACE-4)
	Spots  []job.Spot // where each rank was told to go; nil: nowhere
	Layout pin.Layout
	GPUs   int // as job.Share has it
}

// Defs are the configured nodes.
func (s *State) Defs() []job.NodeDef {
	defs := make([]job.NodeDef, len(s.Nodes))
	for i := range s.Nodes {
		defs[i] = s.Nodes[i].NodeDef
	}
	return defs
}

// Input is what psi reads of the state. The environment and the files of the state
// take the place of the real ones; flags are those of the command line, which beat
// the state's; np too, if it is given.
func (s *State) Input(np string, flags psi.Flags, env func(string) (string, bool), open func(string) (string, error)) psi.Input {
	in := psi.Input{NP: cmp.Or(np, s.NP), Nodes: s.Defs(), Sort: s.Sort, Env: env, Open: open, Flags: merge(flags, s.Flags),
		Rules: s.Rules, User: s.User, Placed: s.Spots != nil}
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

// merge takes each flag from where it is given first.
func merge(a, b psi.Flags) psi.Flags {
	return psi.Flags{
		Nodes: cmp.Or(a.Nodes, b.Nodes), Sort: cmp.Or(a.Sort, b.Sort), Types: cmp.Or(a.Types, b.Types),
		Map: cmp.Or(a.Map, b.Map), TPP: cmp.Or(a.TPP, b.TPP), PPN: cmp.Or(a.PPN, b.PPN),
		Unique: cmp.Or(a.Unique, b.Unique), Exclusive: cmp.Or(a.Exclusive, b.Exclusive),
		Overbook: cmp.Or(a.Overbook, b.Overbook), Share: a.Share || b.Share, Loop: cmp.Or(a.Loop, b.Loop), Wait: cmp.Or(a.Wait, b.Wait),
		Pin: cmp.Or(a.Pin, b.Pin), MemBind: cmp.Or(a.MemBind, b.MemBind),
		Choosing: a.Choosing.Over(b.Choosing),
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

// Placed reports whether there is a plan to start.
func (o *Outcome) Placed() bool { return o.Err == nil }

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
	o := Planned(req, snap, p, warnings)
	o.Err = err
	return o
}

// Planned is the outcome of a request that was planned already.
func Planned(req job.Request, snap job.Snapshot, p job.Plan, warnings []job.Note) Outcome {
	return Outcome{Plan: p, Threads: max(1, req.Apps[0].Threads), Warnings: append(slices.Clone(warnings), p.Notes...),
		Request: req, Snapshot: snap}
}

// Request is what the state and the input ask for, with the warnings of that.
func (s *State) Request(in psi.Input) (job.Request, []job.Note, error) {
	choice, err := psi.Read(in)
	choice.Layout, choice.GPUs = s.Layout, s.GPUs
	if err == nil {
		err = psi.Clash([]job.Share{choice.Share}, s.Layout, s.Spots != nil)
	}
	return job.Request{
		User: s.User, Nodes: choice.Nodes, Turns: choice.Turns, Placing: choice.Placing, Home: s.TryOut, RankFile: s.Spots,
		Apps: []job.App{{N: atoi(in.NP), Share: choice.Share}},
	}, choice.Warnings, err
}

// Snapshot is what the state knows of the nodes.
func (s *State) Snapshot() job.Snapshot {
	return job.Snapshot{Nodes: slices.Clone(s.Nodes), Ahead: s.Ahead, Waited: s.Waited}
}

// atoi is the value of digits that psi has checked.
func atoi(digits string) int {
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// bad is the error about a file that is no cluster state.
func bad(text string) error { return &psi.Error{Code: "bad-state", What: "cluster state: " + text} }

// Unreadable is the outcome of a state that cannot even be read.
func Unreadable(err error) Outcome {
	var known *psi.Error
	if !errors.As(err, &known) {
		err = bad(err.Error())
	}
	return Outcome{Err: err}
}

// byID orders nodes: their order in the file does not matter (9.3).
func byID(nodes []job.Node) {
	slices.SortFunc(nodes, func(a, b job.Node) int { return cmp.Compare(a.ID, b.ID) })
}
