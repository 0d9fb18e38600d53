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
	"remshell/simulate"
)

// PlanFromState makes a plan for a cluster that a file describes (placement.md 9). It connects to no host.
func (w Inputs) PlanFromState(line option.Line) simulate.Outcome {
	read := ReadTexts(w.OpenFile)
	text, err := read(line.Job.ClusterState)
	if err != nil {
		return simulate.ReadError(err)
	}
	s, err := simulate.Parse([]byte(text))
	if err != nil {
		return simulate.ReadError(err)
	}
	np, _ := line.Apps[0].Origin("n")
	in := s.PSIInput(np.Value, psiFlags(line.Job, line.Apps[0]), w.lookupEnv, read)
	fixed, err := newRankPlacement(line, openTexts(in.Open))
	if err != nil {
		return fixed.errorOutcome(err)
	}
	if n := fixed.countRanks(); in.NP == "" && n > 0 {
		in.NP = strconv.Itoa(n)
	}
	if in.NP == "" {
		return simulate.ReadError(&psi.Error{Code: "bad-state", Problem: "the number of ranks (np) is missing; give -n N"})
	}
	named, source, err := w.hostsOfState(fixed, line.Apps[0], in)
	if err != nil {
		return simulate.Outcome{Err: err}
	}
	in.HostsNamed, in.HostFeatures, in.RanksPlaced = len(named) > 0, featuresOf(named), in.RanksPlaced || fixed.option != ""
	req, warnings, err := s.Request(in)
	if err == nil && in.HostsNamed {
		err = restrictToNamed(&req, named, source)
	}
	if err != nil {
		return simulate.Outcome{Warnings: warnings, Err: err, Request: req}
	}
	setStateLayout(&req, s, line)
	if err := fixed.applyTo(&req, "the list"); err != nil {
		return fixed.errorOutcome(err)
	}
	if n := line.Apps[0].GPUs; n != 0 {
		req.Apps[0].GPUs = int(n)
	}
	if program := line.Apps[0].Program; program != "" {
		req.Apps[0].Argv = []string{program}
	}
	return simulate.Decide(req, s.Snapshot(), warnings)
}

// hostsOfState returns the hosts of the app context. If the app context names none, it returns the hosts in fixed,
// which contains the placement of each rank. source names the option or file from which the hosts come. The error is a
// *psi.Error.
func (w Inputs) hostsOfState(fixed rankPlacement, s option.AppContext, in psi.Input) (named []hostlist.Entry, source string, err error) {
	named, err = w.appHosts(s, openTexts(in.Open), psi.HostsUnique(in))
	if err != nil {
		return nil, "", &psi.Error{Code: "bad-hostfile", Source: "-hostfile", Token: s.HostFile, Problem: "cannot be used", Reason: err.Error()}
	}
	if len(named) > 0 || in.Flags.Nodes != nil {
		return named, "-host", nil
	}
	if named, err = fixed.namedHosts(); err != nil {
		return nil, "", fixed.rankFileError(err)
	}
	return named, fixed.option, nil
}

// restrictToNamed makes the hosts of -host and -hostfile the only candidate hosts, in the given order and with the
// given slots. If one node is named twice, under two names, the slots are added up (rule HOST-8).
func restrictToNamed(req *job.Request, named []hostlist.Entry, source string) error {
	index := make(map[string]int)
	var names []string
	for i, n := range req.Nodes {
		names = append(names, n.Name)
		req.Nodes[i].Slots, req.Nodes[i].MaxSlots = 0, 0
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			index[strings.ToLower(name)] = i
		}
	}
	listed := make([]bool, len(req.Nodes))
	for _, e := range named {
		i, known := index[strings.ToLower(e.Label())]
		if !known {
			i, known = index[strings.ToLower(e.Host)]
		}
		if !known {
			if source == "-host" && e.Line > 0 {
				source = "-hostfile"
			}
			return &psi.Error{Code: "unknown-host", Source: source, Token: e.Host, Problem: "is not the name of a node of the cluster", Allowed: psi.ShortenList(names)}
		}
		req.Nodes[i].Slots += e.Slots
		req.Nodes[i].MaxSlots += e.MaxSlots
		given := candidateOf(i, e, Localhost{}, true)
		req.Nodes[i].Features = append(req.Nodes[i].Features, given.Features...)
		req.Nodes[i].Bind = cmp.Or(given.Bind, req.Nodes[i].Bind)
		if !listed[i] {
			req.HostEntries = append(req.HostEntries, i)
		}
		listed[i] = true
	}
	return nil
}

// setStateLayout sets the layout (mapping, ranking, binding) of a request. The command line's layout takes
// precedence over the layout in the state file.
func setStateLayout(req *job.Request, s *simulate.State, line option.Line) {
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
	setCPUUnit(req, line)
}

// errorOutcome returns the outcome for an error in a rank file or rank map.
func (p rankPlacement) errorOutcome(err error) simulate.Outcome {
	return simulate.Outcome{Err: p.rankFileError(err)}
}

func (p rankPlacement) rankFileError(err error) error {
	return &psi.Error{Code: "bad-rankfile", Source: p.option, Token: p.file, Problem: "cannot be used", Reason: err.Error()}
}

// openTexts converts a function that reads files as text to a function that opens files.
func openTexts(read func(string) (string, error)) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		text, err := read(name)
		return io.NopCloser(strings.NewReader(text)), err
	}
}
