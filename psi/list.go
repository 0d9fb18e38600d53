package psi

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
)

// maxTurns bounds what a list may expand to: far more turns than processes have no
// meaning, and a slip must not take all memory.
const maxTurns = 1 << 24

// A listing is a node list being read. Entries are looked up as they are met, so
// that the first fault of the text is told.
type listing struct {
	source string // the flag or variable
	value  string
	adHoc  bool
	nodes  []job.NodeDef
	byID   map[int]int
	byName map[string]int
	turns  []int
}

// list takes the one source that counts (1.3, 2): a flag hides all variables, the
// first variable that is defined hides the others, and none means every node.
func (c *Choice) list(in Input) error {
	if c.Nodes = in.Nodes; in.Listed {
		return nil
	}
	l := newListing(in)
	err := l.read(in)
	if err == nil && len(l.turns) == 0 && !(in.AdHoc && l.source == "") {
		err = l.empty()
	}
	c.Nodes, c.Turns, c.From = l.nodes, l.turns, l.source
	return err
}

// empty is the fault of a source, or a configuration, without a node.
func (l *listing) empty() error {
	err := &Error{Code: "empty-list", Source: l.source, Token: l.value, What: "no node is named by", Allowed: []string{"at least one node"}}
	if l.source == "" {
		err.What = "the configuration has no node"
	}
	return err
}

func newListing(in Input) *listing {
	l := &listing{adHoc: in.AdHoc, nodes: slices.Clip(in.Nodes), byID: make(map[int]int, len(in.Nodes)), byName: make(map[string]int, len(in.Nodes))}
	for i, n := range in.Nodes {
		l.byID[n.ID] = i
		l.byName[lower(n.Name)] = i
		for _, name := range n.Aliases {
			l.byName[lower(name)] = i
		}
	}
	return l
}

// read finds the source and has it read.
func (l *listing) read(in Input) error {
	if in.Flags.Nodes != nil {
		l.source, l.value = "--nodes", *in.Flags.Nodes
		return l.ids()
	}
	for _, v := range []struct {
		name string
		read func() error
	}{
		{"PSI_NODES", l.ids},
		{"PSI_HOSTS", l.hosts},
		{"PSI_HOSTFILE", func() error { return l.file(in, l.hostLine(Unique(in))) }},
		{"PSI_PEFILE", func() error { return l.file(in, l.countLine) }},
	} {
		if value, defined := in.Env(v.name); defined {
			l.source, l.value = v.name, value
			return v.read()
		}
	}
	l.all()
	return nil
}

// all makes every configured node a candidate, ascending by ID.
func (l *listing) all() {
	for i := range l.nodes {
		l.turns = append(l.turns, i)
	}
	l.ascend()
}

// ids reads node IDs and ranges of them (1.4). The flag may have names of nodes among them: then they are taken in the order
// of their IDs, each once (aprun.md 2).
func (l *listing) ids() error {
	named := false
	for item := range strings.SplitSeq(l.value, ",") {
		item = strip(item)
		if item == "" {
			continue
		}
		low, high, isRange := strings.Cut(item, "-")
		first, ok := id(low)
		last := first
		if ok && isRange {
			last, ok = id(high)
		}
		i, known := l.byName[lower(item)]
		switch {
		case !ok && known && l.source == "--nodes":
			named = true
			if err := l.add(i, 1, item); err != nil {
				return err
			}
			continue
		case !ok && strings.ContainsFunc(item, letter):
			return l.badNodes(item, "bad element (host names belong in PSI_HOSTS)")
		case !ok:
			return l.badNodes(item, "bad element")
		case last < first:
			return l.badNodes(item, "descending range")
		}
		for n := first; n <= last; n++ {
			i, known := l.byID[n]
			if !known {
				return &Error{Code: "unknown-node", Source: l.source, Token: strconv.Itoa(n), What: "no node with ID", Allowed: l.allowedIDs()}
			}
			if err := l.add(i, 1, item); err != nil {
				return err
			}
		}
	}
	if named {
		l.ascend()
		l.turns = slices.Compact(l.turns)
	}
	return nil
}

// ascend puts the turns in the order of the nodes' IDs.
func (l *listing) ascend() {
	slices.SortFunc(l.turns, func(a, b int) int { return cmp.Compare(l.nodes[a].ID, l.nodes[b].ID) })
}

func (l *listing) badNodes(item, what string) error {
	return &Error{Code: "bad-nodes", Source: l.source, Token: item, What: what, Allowed: l.allowedIDs()}
}

func (l *listing) allowedIDs() []string {
	ids := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		ids[i] = n.ID
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return []string{"IDs of a cluster file, and there is none (doc/cluster.toml shows one)"}
	}
	return []string{"ID", "FIRST-LAST with FIRST <= LAST", "configured IDs: " + idset.Text(ids)}
}

// hosts reads names between blanks or commas (1.4).
func (l *listing) hosts() error {
	for _, name := range words(l.value) {
		if network(name) {
			continue
		}
		if err := l.host(name, 1); err != nil {
			return err
		}
	}
	return nil
}

// host adds a node by its name or an alias, some times over.
func (l *listing) host(name string, times int) error {
	i, known := l.byName[lower(name)]
	if !known && l.adHoc {
		if !hostlist.IsName(name) {
			return &Error{Code: "unknown-host", Source: l.source, Token: name, What: "cannot be a host name", Allowed: []string{"names and addresses alone"}}
		}
		i, known = len(l.nodes), true
		l.byName[lower(name)] = i
		l.nodes = append(l.nodes, job.NodeDef{ID: i, Name: name, Host: name, Origin: l.source})
	}
	if !known {
		return &Error{Code: "unknown-host", Source: l.source, Token: name, What: "no node with host name", Allowed: l.names()}
	}
	return l.add(i, times, name)
}

func (l *listing) add(i, times int, token string) error {
	if len(l.turns)+times > maxTurns {
		return l.badNodes(token, fmt.Sprintf("more than %d entries at", maxTurns))
	}
	for range times {
		l.turns = append(l.turns, i)
	}
	return nil
}

// names lists the known ones, a long list cut.
func (l *listing) names() []string {
	names := make([]string, len(l.nodes))
	for i, n := range l.nodes {
		names[i] = n.Name
	}
	return Cut(names)
}

// Cut keeps the first of many names that are allowed, and counts the others.
func Cut(names []string) []string {
	const most = 50
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// network reports whether a word chooses a network and not a node.
func network(word string) bool { return strings.HasPrefix(word, "ifhn=") }

// id reads one to ten digits between blanks.
func id(text string) (int, bool) {
	text = strip(text)
	if len(text) > 10 {
		return 0, false
	}
	return number(text, 0, 1<<62)
}

func letter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' || r > 127 }

// lower folds the case of ASCII letters alone (1.4).
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}
