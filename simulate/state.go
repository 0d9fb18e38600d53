/*
Package simulate plans jobs on a cluster that is described in a JSON file (placement.md section 9).

	file --Parse--> State --PSIInput--> psi.Read --Request--> plan.Make --Write--> JSON

A user can save a request and plan it again without access to any node. The packages psi and plan make the decisions,
with the same code as in a real run. This package only reads and writes the two JSON formats. It ignores unknown fields
of the input.
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

// A State describes a cluster at one moment, and a request for a job.
type State struct {
	Nodes      []job.Node // ascending by ID
	Sort       string     // PSINodesSort
	Env        map[string]*string
	Files      map[string]string // nil means the real files
	Flags      psi.Flags
	NP         string
	User       job.User
	QueueAhead int

	Rules  job.SelectionRules
	Waited time.Duration // as in job.Snapshot

	Gang            bool                 // the job is a gang (--gang)
	LocalOnly       bool                 // the job runs only on this machine, and may share its CPUs (PLACE-4)
	FixedPlacements []job.FixedPlacement // by a rank file; nil if there is none
	Layout          pin.Layout
	GPUs            int // as in job.RankNeeds
}

// NodeDefs returns the definitions of the state's nodes, without their current state.
func (s *State) NodeDefs() []job.NodeDef {
	defs := make([]job.NodeDef, len(s.Nodes))
	for i := range s.Nodes {
		defs[i] = s.Nodes[i].NodeDef
	}
	return defs
}

// PSIInput returns the input for psi.Read. If the state contains an environment or files, these replace env and
// open. The flags and np from the command line override those of the state.
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
			text, known := s.Files[name]
			if !known {
				return "", fs.ErrNotExist
			}
			return text, nil
		}
	}
	return in
}

// mergeFlags returns a copy of f in which each flag that is not set gets its value from weaker.
func mergeFlags(f, weaker psi.Flags) psi.Flags {
	return psi.Flags{
		Nodes: cmp.Or(f.Nodes, weaker.Nodes), Sort: cmp.Or(f.Sort, weaker.Sort), Features: cmp.Or(f.Features, weaker.Features),
		CPUMap: cmp.Or(f.CPUMap, weaker.CPUMap), TPP: cmp.Or(f.TPP, weaker.TPP), PPN: cmp.Or(f.PPN, weaker.PPN),
		HostsUnique: cmp.Or(f.HostsUnique, weaker.HostsUnique), Exclusive: cmp.Or(f.Exclusive, weaker.Exclusive),
		Overbook: cmp.Or(f.Overbook, weaker.Overbook), Oversubscribe: f.Oversubscribe || weaker.Oversubscribe,
		Loop: cmp.Or(f.Loop, weaker.Loop), Wait: cmp.Or(f.Wait, weaker.Wait),
		Pin: cmp.Or(f.Pin, weaker.Pin), MemBind: cmp.Or(f.MemBind, weaker.MemBind),
		SelectionFlags: f.SelectionFlags.WithDefaults(weaker.SelectionFlags),
	}
}

// An Outcome is the result of planning a request. It is a plan, a position in the queue, or an error.
type Outcome struct {
	Plan     job.Plan
	Threads  int
	Warnings []job.Note
	Err      error // nil, *psi.Error or *plan.Error

	Request  job.Request // the request and the snapshot, if planning got that far
	Snapshot job.Snapshot
}

// HasPlan reports whether the job can start.
func (o *Outcome) HasPlan() bool { return o.Err == nil }

// Decide plans the request that s.Request returns for the same input, and returns the outcome.
func (s *State) Decide(in psi.Input) Outcome {
	req, warnings, err := s.Request(in)
	if err != nil {
		return Outcome{Warnings: warnings, Err: err}
	}
	return Decide(req, s.Snapshot(), warnings)
}

// Decide plans a request that has exactly one app context, and returns the outcome.
func Decide(req job.Request, snap job.Snapshot, warnings []job.Note) Outcome {
	p, err := plan.Make(req, snap)
	o := OutcomeOf(req, snap, p, warnings)
	o.Err = err
	return o
}

// OutcomeOf returns the outcome of a request whose plan is already known.
func OutcomeOf(req job.Request, snap job.Snapshot, p job.Plan, warnings []job.Note) Outcome {
	return Outcome{Plan: p, Threads: max(1, req.Apps[0].CPUsPerRank), Warnings: append(slices.Clone(warnings), p.Notes...),
		Request: req, Snapshot: snap}
}

// Request returns the job request for the given input, with the layout and the options of the state. It also returns
// the warnings of psi.Read.
func (s *State) Request(in psi.Input) (job.Request, []job.Note, error) {
	choice, err := psi.Read(in)
	choice.Layout, choice.GPUs = s.Layout, s.GPUs
	choice.Gang = s.Gang
	if err == nil {
		err = psi.CheckConflicts([]job.RankNeeds{choice.RankNeeds}, s.Layout, s.FixedPlacements != nil)
	}
	return job.Request{
		User: s.User, Nodes: choice.Nodes, HostEntries: choice.Entries, Placement: choice.Placement, LocalOnly: s.LocalOnly, FixedPlacements: s.FixedPlacements,
		Apps: []job.App{{N: digitsValue(in.NP), RankNeeds: choice.RankNeeds}},
	}, choice.Warnings, err
}

// Snapshot returns the state's nodes as if a probe had found them.
func (s *State) Snapshot() job.Snapshot {
	nodes := slices.Clone(s.Nodes)
	for i := range nodes {
		if s.Gang && nodes[i].Gang == (job.GangTerms{}) {
			nodes[i].Gang = job.DefaultGangTerms
		}
	}
	return job.Snapshot{Nodes: nodes, Ahead: s.QueueAhead, Waited: s.Waited}
}

// digitsValue converts a string of digits to a number. It does not check that there are only digits.
func digitsValue(digits string) int {
	n := 0
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// stateError returns the error for a file that is not a valid cluster state.
func stateError(text string) error {
	return &psi.Error{Code: "bad-state", Problem: "cluster state: " + text}
}

// ReadError returns the outcome for a state file that cannot be read.
func ReadError(err error) Outcome {
	var known *psi.Error
	if !errors.As(err, &known) {
		err = stateError(err.Error())
	}
	return Outcome{Err: err}
}

// sortByID sorts nodes by ID, so that the result does not depend on their order in the file (placement.md 9.3).
func sortByID(nodes []job.Node) {
	slices.SortFunc(nodes, func(a, b job.Node) int { return cmp.Compare(a.ID, b.ID) })
}
