package cli

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/psi"
	"remshell/whatif"
)

// planFile answers --plan or --dry-run with --cluster-state FILE (placement.md 9).
// Nobody is reached. The code is 0 if ranks were placed.
func planFile(line option.Line, sys System, failure int) int {
	code, err := showPlan(line, sys, planned(line, sys), nil)
	if err != nil {
		report(sys.Err, err)
		return failure
	}
	return code
}

// planUsage refuses what the options that only tell cannot do.
func planUsage(line option.Line) error {
	j := line.Job
	file, several, first := j.ClusterState != "", len(line.Sections) > 1, line.Sections[0]
	switch {
	case file && !j.Plan && !j.DryRun:
		return &fault.Error{Text: "--cluster-state has a meaning only with --plan or --dry-run", Remedy: "add one of them, or leave it out"}
	case file && j.NoLocal:
		return &fault.Error{Text: "-nolocal has no meaning with --cluster-state, which does not tell where mpiexec runs", Remedy: "leave it out"}
	case file && (j.Exclude != nil || j.Simulate > 0 || j.RMK != "" || first.Soft.Members != nil || first.Arch != ""):
		return &fault.Error{Text: "-exclude, -rmk, -soft, -arch and --simulate-nodes have no meaning with --cluster-state", Remedy: "leave them out, and name nodes with --nodes"}
	case file && several, j.SaveState != "" && several:
		return &fault.Error{Text: "a cluster state covers a single executable", Remedy: "take each section on its own"}
	case j.SaveState != "" && j.DryRun && !j.Probe:
		return &fault.Error{Text: "--save-cluster-state needs a look at the hosts", Remedy: "add --probe"}
	case j.JSON != "" && j.Plan && !j.DryRun:
		return &fault.Error{Text: "--json has no meaning with --plan, which writes JSON as it is", Remedy: "leave it out"}
	case j.JSONOutput && (j.JSON == "" || !starts(j)):
		return &fault.Error{Text: "--json-output has a meaning only with --json and a run", Remedy: "add --json, or leave it out"}
	case j.Doctor && (j.Plan || j.DryRun || asksOfJobs(j)):
		return &fault.Error{Text: "--doctor is a question of its own", Remedy: "ask one at a time"}
	case j.Probe && !j.DryRun:
		return &fault.Error{Text: "--probe has a meaning only with --dry-run", Remedy: "leave it out"}
	}
	return nil
}

// planned reads the state and decides.
func planned(line option.Line, sys System) whatif.Outcome {
	text, err := reader(sys)(line.Job.ClusterState)
	if err != nil {
		return whatif.Unreadable(err)
	}
	s, err := whatif.Parse([]byte(text))
	if err != nil {
		return whatif.Unreadable(err)
	}
	env := func(name string) (string, bool) { return job.Lookup(sys.Environ, name) }
	np, given := line.Sections[0].Origin("n")
	if !given {
		np, _ = line.Origin("gn")
	}
	in := s.Input(np.Value, flags(line.Job, line.Sections[0]), env, reader(sys))
	told, err := newFixture(line, stream(in.Open))
	if err != nil {
		return told.bad(err)
	}
	if n := told.ranks(); in.NP == "" && n > 0 {
		in.NP = strconv.Itoa(n)
	}
	if in.NP == "" {
		return whatif.Unreadable(&psi.Error{Code: "bad-state", What: "np is missing; give -n N"})
	}
	named, source, err := told.orHosts(line.Sections[0], in)
	if err != nil {
		return whatif.Outcome{Err: err}
	}
	in.Listed, in.Types = len(named) > 0, featuresOf(named)
	req, warnings, err := s.Request(in)
	if err == nil && in.Listed {
		err = restrict(&req, named, source)
	}
	if err != nil {
		return whatif.Outcome{Warnings: warnings, Err: err, Request: req}
	}
	layFile(&req, s, line)
	if err := told.apply(&req, "the list"); err != nil {
		return told.bad(err)
	}
	if n := line.Sections[0].GPUs; n != 0 {
		req.Apps[0].GPUs = int(n)
	}
	if program := line.Sections[0].Program; program != "" {
		req.Apps[0].Argv = []string{program}
	}
	return whatif.Decide(req, s.Snapshot(), warnings)
}

// orHosts are the hosts that a section names, or else what says where each rank goes; source
// is what named them. The error is a *psi.Error.
func (f fixture) orHosts(s option.Section, in psi.Input) (named []hostlist.Entry, source string, err error) {
	named, err = hosts(s, stream(in.Open), psi.Unique(in))
	if err != nil {
		return nil, "", &psi.Error{Code: "bad-hostfile", Source: "-hostfile", Token: s.HostFile, What: "cannot use", Reason: err.Error()}
	}
	if len(named) > 0 || in.Flags.Nodes != nil {
		return named, "-host", nil
	}
	if named, err = f.hosts(); err != nil {
		return nil, "", f.unusable(err)
	}
	return named, f.by, nil
}

// restrict makes the hosts of -host and -hostfile the candidates, in their order, with
// the slots that were written down. Two names of one node offer theirs together (HOST-8).
func restrict(req *job.Request, named []hostlist.Entry, source string) error {
	index := make(map[string]int)
	var names []string
	for i, n := range req.Nodes {
		names = append(names, n.Name)
		req.Nodes[i].Slots, req.Nodes[i].MaxSlots = 0, 0
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			index[strings.ToLower(name)] = i
		}
	}
	turn := make([]bool, len(req.Nodes))
	for _, e := range named {
		i, known := index[strings.ToLower(e.Label())]
		if !known {
			i, known = index[strings.ToLower(e.Host)]
		}
		if !known {
			if source == "-host" && e.Line > 0 {
				source = "-hostfile"
			}
			return &psi.Error{Code: "unknown-host", Source: source, Token: e.Host, What: "no node with host name", Allowed: psi.Cut(names)}
		}
		req.Nodes[i].Slots += e.Slots
		req.Nodes[i].MaxSlots += e.MaxSlots
		said := candidate(i, e, Here{}, true)
		req.Nodes[i].Features = append(req.Nodes[i].Features, said.Features...)
		req.Nodes[i].Bind = cmp.Or(said.Bind, req.Nodes[i].Bind)
		if !turn[i] {
			req.Turns = append(req.Turns, i)
		}
		turn[i] = true
	}
	return nil
}

// layFile tells a request the layout of the command line, else that of the state.
func layFile(req *job.Request, s *whatif.State, line option.Line) {
	j := line.Job
	layout := pin.Layout{Map: j.MapBy, Rank: j.RankBy, Bind: j.BindTo}
	if layout.Map.Text == "" {
		layout.Map = s.Layout.Map
	}
	if layout.Rank.Text == "" {
		layout.Rank = s.Layout.Rank
	}
	if layout.Bind.Text == "" {
		layout.Bind = s.Layout.Bind
	}
	if layout.Mem = j.Memory; layout.Mem.Text == "" {
		layout.Mem = s.Layout.Mem
	}
	req.Layout = layout
	counted(req, line)
}

// bad is the outcome of a rank file, or map, that cannot be used.
func (f fixture) bad(err error) whatif.Outcome { return whatif.Outcome{Err: f.unusable(err)} }

func (f fixture) unusable(err error) error {
	return &psi.Error{Code: "bad-rankfile", Source: f.by, Token: f.file, What: "cannot use", Reason: err.Error()}
}

// stream opens texts as files.
func stream(read func(string) (string, error)) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, err := read(name)
		return io.NopCloser(strings.NewReader(text)), err
	}
}

// reader reads the user's files as a whole.
func reader(sys System) func(name string) (string, error) { return whole(opener(sys)) }

func whole(open func(string) (io.ReadCloser, error)) func(string) (string, error) {
	return func(name string) (string, error) {
		f, err := open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		return string(text), err
	}
}
