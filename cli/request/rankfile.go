package request

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
)

// A rankPlacement is what the user wrote down about the place of each rank: a rank file
// (cli.md 4.3), -rankmap or --map-by seq. The zero value says nothing.
type rankPlacement struct {
	by    string // the option
	file  string
	lines []hostlist.RankLine
	nodes []hostlist.NodeIndex
	seq   []hostlist.Entry // --map-by seq: the host of each rank
}

// newRankPlacement reads -rankfile or -rankmap.
func newRankPlacement(line option.Line, open func(string) (io.ReadCloser, error)) (rankPlacement, error) {
	var p rankPlacement
	j := line.Job
	for _, way := range []struct {
		name, dashed string
		given        bool
	}{{"rankfile", "-rankfile", j.RankFile != ""}, {"rankmap", "-rankmap", j.RankMap != ""}, {"map-by", "--map-by", j.MapBy.Seq}} {
		if !way.given {
			continue
		}
		g, given := line.Origin(way.name)
		spelled := way.dashed
		if given {
			spelled = g.Spelled
		}
		if p.by != "" {
			return p, &fault.Error{Text: fmt.Sprintf("%s contradicts %s", spelled, p.by), Remedy: "keep one"}
		}
		p.by = spelled
	}
	var err error
	switch {
	case j.MapBy.Seq:
		p.seq, p.file, err = sequence(line, open)
	case j.RankFile != "":
		p.file = j.RankFile
		p.lines, err = hostlist.ReadRanks(j.RankFile, open, checkSlots)
	case j.RankMap != "":
		p.file = p.by
		p.nodes, err = hostlist.ParseRankMap(p.by, j.RankMap)
	}
	if err != nil || p.by == "" {
		return p, err
	}
	return p, p.contradicted(line)
}

// sequence lists the hosts of --map-by seq: those of its file, else of -hostfile, else of
// -host, as often as they are named there.
func sequence(line option.Line, open func(string) (io.ReadCloser, error)) ([]hostlist.Entry, string, error) {
	first := line.Sections[0]
	file := cmp.Or(line.Job.MapBy.File, first.HostFile)
	var all []hostlist.Entry
	var err error
	if file != "" {
		all, err = hostlist.ReadFile(file, open, meaningless)
	} else {
		for _, expr := range first.Host {
			all = append(all, expr...)
		}
		file = "-host"
	}
	if err == nil && len(all) == 0 {
		err = &fault.Error{Text: "--map-by seq takes the host of each rank from a list, and there is none", Remedy: "write seq:file=FILE, or name hosts with -hostfile"}
	}
	all = slices.DeleteFunc(all, func(e hostlist.Entry) bool { return e.Exclude })
	return all, file, err
}

// contradicted refuses what else was said about the place of ranks: nothing is
// swallowed silently.
func (p rankPlacement) contradicted(line option.Line) error {
	for _, name := range []string{"loop-nodes-first", "sort", "cpu-map"} {
		if g, given := line.Origin(name); given && g.Value != "no" {
			return &fault.Error{Text: fmt.Sprintf("%s contradicts %s, which says where each rank goes", g.Spelled, p.by), Remedy: "keep one"}
		}
	}
	for _, s := range line.Sections {
		if g, given := s.Origin("soft"); given {
			return &fault.Error{Text: fmt.Sprintf("%s contradicts %s, which says what ranks there are", g, p.by), Remedy: "use -n"}
		}
		if g, given := s.Origin("tpp"); given && p.lines != nil {
			return &fault.Error{Text: fmt.Sprintf("%s contradicts %s, which says what CPUs each rank has", g.Spelled, p.by), Remedy: "keep one"}
		}
	}
	return nil
}

// checkSlots is what a rank file may say of CPUs.
func checkSlots(slots string) (from, to int, err error) {
	_, err = pin.ParsePicks(slots)
	var at *pin.SpanError
	if errors.As(err, &at) {
		from, to = at.From, at.To
	}
	return from, to, err
}

// ranks is how many ranks were told where to go.
func (p rankPlacement) ranks() int {
	n := len(p.nodes) + len(p.seq)
	for _, l := range p.lines {
		n = max(n, l.Last+1)
	}
	return n
}

// hosts are those a rank file names, each once, or --map-by seq.
func (p rankPlacement) hosts() ([]hostlist.Entry, error) {
	if p.seq != nil {
		return hostlist.Join(p.seq)
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

// apply tells each rank of a request where to go, and lets go of the candidates that
// none goes to. list is what named them, in words.
func (p rankPlacement) apply(req *job.Request, list string) error {
	if p.by == "" {
		return nil
	}
	n, err := p.number(req)
	if err != nil {
		return err
	}
	if req.RankFile, err = p.spots(req, n, list); err != nil {
		return err
	}
	keepUsed(req)
	return p.unbound(req)
}

// unbound refuses a binding for a host whose ranks have their CPUs written down.
func (p rankPlacement) unbound(req *job.Request) error {
	for _, n := range req.Nodes {
		if p.lines != nil && n.Bind != nil && !n.Bind.None {
			return &fault.Error{Text: fmt.Sprintf("%s: host %s: binding=%s contradicts %s, which says what CPUs each rank has", n.Origin, n.Name, n.Bind.Text, p.by), Remedy: "keep one"}
		}
	}
	return nil
}

// number is the number of ranks, which it fills in where -n is missing. Each must have
// its place; places of further ranks are for other runs.
func (p rankPlacement) number(req *job.Request) (n int, err error) {
	for i := range req.Apps {
		if req.Apps[i].N == 0 {
			req.Apps[i].N = p.ranks()
		}
		n += req.Apps[i].N
	}
	lines := p.lines
	if k := len(p.nodes) + len(p.seq); k > 0 {
		lines = []hostlist.RankLine{{First: 0, Last: k - 1}}
	}
	missing := hostlist.Missing(lines, n)
	if missing != "" {
		err = &fault.Error{Text: fmt.Sprintf("%s: no place is given for %s", p.file, rankNoun(missing)),
			Remedy: fmt.Sprintf("-n is %d, and each rank needs one", n)}
	}
	return n, err
}

func rankNoun(spans string) string {
	if strings.ContainsAny(spans, "-,") {
		return "ranks " + spans
	}
	return "rank " + spans
}

// spots are the places of n ranks.
func (p rankPlacement) spots(req *job.Request, n int, list string) ([]job.Spot, error) {
	find := newFinder(req)
	spots := make([]job.Spot, n)
	var errs []error
	for rank, node := range p.nodes[:min(n, len(p.nodes))] {
		i, reason := find.at(node.Node)
		if reason != "" {
			return nil, node.Fault(fmt.Sprintf("there is no node %d: %s", node.Node, reason))
		}
		spots[rank] = job.Spot{Node: i, At: markOf(node.Fault(""))}
	}
	for rank, e := range p.seq[:min(n, len(p.seq))] {
		l := hostlist.RankLine{Host: e, Index: -1}
		i, reason := find.line(l, list)
		if reason != "" && len(errs) < 10 {
			errs = append(errs, l.HostFault(reason))
		}
		spots[rank] = job.Spot{Node: i, At: markOf(l.HostFault(""))}
	}
	for _, l := range p.lines {
		if l.First >= n {
			continue
		}
		i, reason := find.line(l, list)
		if reason != "" && len(errs) < 10 {
			errs = append(errs, l.HostFault(reason))
		}
		picks, _ := pin.ParsePicks(l.Slots) // checked
		spot := job.Spot{Node: i, Picks: picks, At: markOf(l.Fault(0, len(l.Slots), ""))}
		for rank := l.First; rank <= min(l.Last, n-1); rank++ {
			spots[rank] = spot
		}
	}
	return spots, errors.Join(errs...)
}

func markOf(e *hostlist.SyntaxError) job.Mark {
	return job.Mark{File: e.File, Line: e.Line, Col: e.Col, Width: e.Width, Source: e.Source}
}

// A finder finds candidates by name, or by their place in the host list.
type finder struct {
	names map[string]int
	order []int
}

func newFinder(req *job.Request) finder {
	f := finder{names: make(map[string]int), order: listOf(req)}
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

// listOf is the host list: each candidate once, by its first turn.
func listOf(req *job.Request) []int {
	var order []int
	if req.Turns == nil {
		for i := range req.Nodes {
			order = append(order, i)
		}
		return order
	}
	seen := make([]bool, len(req.Nodes))
	for _, i := range req.Turns {
		if !seen[i] {
			seen[i] = true
			order = append(order, i)
		}
	}
	return order
}

// line finds the host of a rank file's line, or says why not.
func (f finder) line(l hostlist.RankLine, list string) (i int, reason string) {
	if l.Index >= 0 {
		if i, reason = f.at(l.Index); reason != "" {
			reason = fmt.Sprintf("+n%d is none of the hosts: %s", l.Index, reason)
		}
		return i, reason
	}
	i, known := f.names[strings.ToLower(l.Host.Label())]
	if !known {
		return 0, fmt.Sprintf("host %q is not among the hosts of %s", l.Host.Host, list)
	}
	return i, ""
}

// at finds the index-th host of the list.
func (f finder) at(index int) (i int, reason string) {
	switch n := len(f.order); {
	case index < n:
		return f.order[index], ""
	case n == 1:
		return 0, "the host list has one, number 0"
	default:
		return 0, fmt.Sprintf("the host list has %d, from 0 to %d", n, n-1)
	}
}

// keepUsed drops the candidates to which no rank goes: nobody need look at them.
func keepUsed(req *job.Request) {
	used := make([]bool, len(req.Nodes))
	for _, s := range req.RankFile {
		used[s.Node] = true
	}
	req.Turns = nil
	at := retain(req, used)
	for rank := range req.RankFile {
		req.RankFile[rank].Node = at[req.RankFile[rank].Node]
	}
}
