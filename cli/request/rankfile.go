package request

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/usererr"
)

// A rankPlacement contains the node of each rank, if the user specifies it with a rank file (cli.md 4.3), -rankmap or
// --map-by seq. The zero value places no rank.
type rankPlacement struct {
	option   string // spelling of the option; empty: none is given
	file     string
	lines    []hostlist.RankLine
	nodes    []hostlist.NodeIndex
	sequence []hostlist.Entry // --map-by seq: the host of each rank
}

// newRankPlacement reads -rankfile, -rankmap or --map-by seq. open opens the rank file.
func newRankPlacement(line option.Line, open func(string) (io.ReadCloser, error)) (rankPlacement, error) {
	var p rankPlacement
	j := line.Job
	for _, candidate := range []struct {
		name, dashed string
		given        bool
	}{{"rankfile", "-rankfile", j.RankFile != ""}, {"rankmap", "-rankmap", j.RankMap != ""}, {"map-by", "--map-by", j.MapBy.Seq}} {
		if !candidate.given {
			continue
		}
		g, given := line.Origin(candidate.name)
		spelled := candidate.dashed
		if given {
			spelled = g.Spelled
		}
		if p.option != "" {
			return p, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", spelled, p.option), Remedy: "use only one of them"}
		}
		p.option = spelled
	}
	var err error
	switch {
	case j.MapBy.Seq:
		p.sequence, p.file, err = sequenceHosts(line, open)
	case j.RankFile != "":
		p.file = j.RankFile
		p.lines, err = hostlist.ReadRanks(j.RankFile, open, checkSlots)
	case j.RankMap != "":
		p.file = p.option
		p.nodes, err = hostlist.ParseRankMap(p.option, j.RankMap)
	}
	if err != nil || p.option == "" {
		return p, err
	}
	return p, p.checkConflicts(line)
}

// sequenceHosts returns the hosts of --map-by seq in order, with repetitions, and the option that names them. The
// hosts come from the file that seq:file= names or, without it, from -hostfile or else -host.
func sequenceHosts(line option.Line, open func(string) (io.ReadCloser, error)) ([]hostlist.Entry, string, error) {
	first := line.Apps[0]
	file := cmp.Or(line.Job.MapBy.File, first.HostFile)
	var all []hostlist.Entry
	var err error
	if file != "" {
		all, err = hostlist.ReadFile(file, open, checkAttr)
	} else {
		for _, expr := range first.Host {
			all = append(all, expr...)
		}
		file = "-host"
	}
	if err == nil && len(all) == 0 {
		err = &usererr.Error{Text: "--map-by seq needs a list of hosts, one for each rank", Remedy: "write seq:file=FILE, or give hosts with -hostfile"}
	}
	all = slices.DeleteFunc(all, func(e hostlist.Entry) bool { return e.Exclude })
	return all, file, err
}

// checkConflicts returns an error if another option also places ranks, because one of the two options would
// have no effect.
func (p rankPlacement) checkConflicts(line option.Line) error {
	for _, name := range []string{"loop-nodes-first", "sort", "cpu-map"} {
		if g, given := line.Origin(name); given && g.Value != "no" {
			return &usererr.Error{Text: fmt.Sprintf("%s contradicts %s, which sets the place of each rank", g.Spelled, p.option), Remedy: "use only one of them"}
		}
	}
	for _, s := range line.Apps {
		if g, given := s.Origin("soft"); given {
			return &usererr.Error{Text: fmt.Sprintf("%s contradicts %s, which sets the number of ranks", g, p.option), Remedy: "use -n instead of -soft"}
		}
		if g, given := s.Origin("tpp"); given && p.lines != nil {
			return &usererr.Error{Text: fmt.Sprintf("%s contradicts %s, which sets the CPUs of each rank", g.Spelled, p.option), Remedy: "use only one of them"}
		}
	}
	return nil
}

// checkSlots returns an error if the CPUs in a line of a rank file are invalid. The first invalid part is then
// slots[start:end].
func checkSlots(slots string) (start, end int, err error) {
	_, err = pin.ParseCPURanges(slots)
	var at *pin.SpanError
	if errors.As(err, &at) {
		start, end = at.From, at.To
	}
	return start, end, err
}

// countRanks returns the number of ranks that have a placement.
func (p rankPlacement) countRanks() int {
	n := len(p.nodes) + len(p.sequence)
	for _, l := range p.lines {
		n = max(n, l.Last+1)
	}
	return n
}

// namedHosts returns the hosts that a rank file or --map-by seq names, without duplicates.
func (p rankPlacement) namedHosts() ([]hostlist.Entry, error) {
	if p.sequence != nil {
		return hostlist.Join(p.sequence)
	}
	var hosts []hostlist.Entry
	seen := make(map[string]bool)
	for _, l := range p.lines {
		if name := strings.ToLower(l.Host.Host); l.Index < 0 && !seen[name] {
			seen[name] = true
			hosts = append(hosts, l.Host)
		}
	}
	return hosts, nil
}

// applyTo sets the placement of each rank of a request, and drops candidate hosts that get no ranks. list is the option
// or file that names the candidate hosts, for errors.
func (p rankPlacement) applyTo(req *job.Request, list string) error {
	if p.option == "" {
		return nil
	}
	n, err := p.setRankCount(req)
	if err != nil {
		return err
	}
	if req.FixedPlacements, err = p.fixedPlacements(req, n, list); err != nil {
		return err
	}
	dropUnusedNodes(req)
	return p.checkUnbound(req)
}

// checkUnbound returns an error if a host entry sets a binding although the rank file already gives the CPUs
// of ranks on this host.
func (p rankPlacement) checkUnbound(req *job.Request) error {
	for _, n := range req.Nodes {
		if p.lines != nil && n.Bind != nil && !n.Bind.None {
			return &usererr.Error{Text: fmt.Sprintf("%s: host %s: binding=%s contradicts %s, which sets the CPUs of each rank", n.Origin, n.Name, n.Bind.Text, p.option), Remedy: "use only one of them"}
		}
	}
	return nil
}

// setRankCount returns the number of ranks. For each app context without -n, it sets the number of ranks in the
// request. It returns an error if a rank has no placement, and ignores placements of ranks that do not exist.
func (p rankPlacement) setRankCount(req *job.Request) (n int, err error) {
	for i := range req.Apps {
		if req.Apps[i].N == 0 {
			req.Apps[i].N = p.countRanks()
		}
		n += req.Apps[i].N
	}
	lines := p.lines
	if k := len(p.nodes) + len(p.sequence); k > 0 {
		lines = []hostlist.RankLine{{First: 0, Last: k - 1}}
	}
	missing := hostlist.UnplacedRanks(lines, n)
	if missing != "" {
		err = &usererr.Error{Text: fmt.Sprintf("%s sets no place for %s", p.file, rankNoun(missing)),
			Remedy: fmt.Sprintf("add a line to the file for each of the %d ranks", n)}
	}
	return n, err
}

func rankNoun(spans string) string {
	if strings.ContainsAny(spans, "-,") {
		return "ranks " + spans
	}
	return "rank " + spans
}

// fixedPlacements returns the placements of the first n ranks. list names the source of the candidate hosts, for
// errors.
func (p rankPlacement) fixedPlacements(req *job.Request, n int, list string) ([]job.FixedPlacement, error) {
	find := newNodeFinder(req)
	placements := make([]job.FixedPlacement, n)
	var errs []error
	for rank, node := range p.nodes[:min(n, len(p.nodes))] {
		i, reason := find.findIndex(node.Node)
		if reason != "" {
			return nil, node.ErrorAt(fmt.Sprintf("node %d does not exist: %s", node.Node, reason))
		}
		placements[rank] = job.FixedPlacement{Node: i, Position: markOf(node.ErrorAt(""))}
	}
	for rank, e := range p.sequence[:min(n, len(p.sequence))] {
		l := hostlist.RankLine{Host: e, Index: -1}
		i, reason := find.findLineHost(l, list)
		if reason != "" && len(errs) < 10 {
			errs = append(errs, l.HostError(reason))
		}
		placements[rank] = job.FixedPlacement{Node: i, Position: markOf(l.HostError(""))}
	}
	for _, l := range p.lines {
		if l.First >= n {
			continue
		}
		i, reason := find.findLineHost(l, list)
		if reason != "" && len(errs) < 10 {
			errs = append(errs, l.HostError(reason))
		}
		picks, _ := pin.ParseCPURanges(l.Slots) // checked
		placement := job.FixedPlacement{Node: i, Picks: picks, Position: markOf(l.SlotError(0, len(l.Slots), ""))}
		for rank := l.First; rank <= min(l.Last, n-1); rank++ {
			placements[rank] = placement
		}
	}
	return placements, errors.Join(errs...)
}

func markOf(e *hostlist.SyntaxError) job.SourcePosition {
	return job.SourcePosition{File: e.File, Line: e.Line, Col: e.Col, Width: e.Width, Source: e.Source}
}

// A nodeFinder finds candidates by name, or by their index in the host list.
type nodeFinder struct {
	names map[string]int
	order []int
}

func newNodeFinder(req *job.Request) nodeFinder {
	f := nodeFinder{names: make(map[string]int), order: hostList(req)}
	for _, i := range slices.Backward(f.order) {
		n := &req.Nodes[i]
		for _, name := range append([]string{n.Host}, n.Aliases...) {
			f.names[strings.ToLower(name)] = i
		}
	}
	for _, i := range f.order {
		f.names[strings.ToLower(req.Nodes[i].Name)] = i
	}
	return f
}

// hostList returns the indices of the candidates in the order of the host list, without duplicates.
func hostList(req *job.Request) []int {
	var order []int
	if req.HostEntries == nil {
		for i := range req.Nodes {
			order = append(order, i)
		}
		return order
	}
	seen := make([]bool, len(req.Nodes))
	for _, i := range req.HostEntries {
		if !seen[i] {
			seen[i] = true
			order = append(order, i)
		}
	}
	return order
}

// findLineHost returns the index of the candidate host that a line of a rank file names, or the reason why there is
// none. list names the source of the candidate hosts.
func (f nodeFinder) findLineHost(l hostlist.RankLine, list string) (i int, reason string) {
	if l.Index >= 0 {
		if i, reason = f.findIndex(l.Index); reason != "" {
			reason = fmt.Sprintf("+n%d: this host does not exist: %s", l.Index, reason)
		}
		return i, reason
	}
	i, known := f.names[strings.ToLower(l.Host.Label())]
	if !known {
		return 0, fmt.Sprintf("host %q is not among the hosts of %s", l.Host.Host, list)
	}
	return i, ""
}

// findIndex returns the index of the candidate at a position of the host list, or the reason why there is none.
func (f nodeFinder) findIndex(index int) (i int, reason string) {
	switch n := len(f.order); {
	case index < n:
		return f.order[index], ""
	case n == 1:
		return 0, "the host list has one host, with index 0"
	default:
		return 0, fmt.Sprintf("the host list has %d hosts, with indexes 0 to %d", n, n-1)
	}
}

// dropUnusedNodes drops the candidates without ranks, so that mpiexec does not connect to them.
func dropUnusedNodes(req *job.Request) {
	used := make([]bool, len(req.Nodes))
	for _, s := range req.FixedPlacements {
		used[s.Node] = true
	}
	req.HostEntries = nil
	at := retainNodes(req, used)
	for rank := range req.FixedPlacements {
		req.FixedPlacements[rank].Node = at[req.FixedPlacements[rank].Node]
	}
}
