package request

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/psi"
	"remshell/whatif"
)

// FromState plans for the cluster that a file describes (placement.md 9). Nobody is reached.
func (w World) FromState(line option.Line) whatif.Outcome {
	read := Texts(w.Open)
	text, err := read(line.Job.ClusterState)
	if err != nil {
		return whatif.Unreadable(err)
	}
	s, err := whatif.Parse([]byte(text))
	if err != nil {
		return whatif.Unreadable(err)
	}
	np, _ := line.Sections[0].Origin("n")
	in := s.Input(np.Value, flags(line.Job, line.Sections[0]), w.env, read)
	told, err := newRankPlacement(line, stream(in.Open))
	if err != nil {
		return told.bad(err)
	}
	if n := told.ranks(); in.NP == "" && n > 0 {
		in.NP = strconv.Itoa(n)
	}
	if in.NP == "" {
		return whatif.Unreadable(&psi.Error{Code: "bad-state", What: "np is missing; give -n N"})
	}
	named, source, err := w.hostsOrRanks(told, line.Sections[0], in)
	if err != nil {
		return whatif.Outcome{Err: err}
	}
	in.Listed, in.Types, in.Placed = len(named) > 0, featuresOf(named), in.Placed || told.by != ""
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

// hostsOrRanks are the hosts that a section names, or else what says where each rank goes; source
// is what named them. The error is a *psi.Error.
func (w World) hostsOrRanks(told rankPlacement, s option.Section, in psi.Input) (named []hostlist.Entry, source string, err error) {
	named, err = w.hosts(s, stream(in.Open), psi.Unique(in))
	if err != nil {
		return nil, "", &psi.Error{Code: "bad-hostfile", Source: "-hostfile", Token: s.HostFile, What: "cannot use", Reason: err.Error()}
	}
	if len(named) > 0 || in.Flags.Nodes != nil {
		return named, "-host", nil
	}
	if named, err = told.hosts(); err != nil {
		return nil, "", told.unusable(err)
	}
	return named, told.by, nil
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
		said := candidate(i, e, Localhost{}, true)
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
func (p rankPlacement) bad(err error) whatif.Outcome { return whatif.Outcome{Err: p.unusable(err)} }

func (p rankPlacement) unusable(err error) error {
	return &psi.Error{Code: "bad-rankfile", Source: p.by, Token: p.file, What: "cannot use", Reason: err.Error()}
}

// stream opens texts as files.
func stream(read func(string) (string, error)) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, err := read(name)
		return io.NopCloser(strings.NewReader(text)), err
	}
}
