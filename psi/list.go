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

// maxEntries is the maximum number of host entries to which a list may expand. This limit keeps a typing error from
// using up the memory.
const maxEntries = 1 << 24

// A nodeList parses a list of nodes. It looks each name up when it reads the name, so that it reports the first
// error in the text.
type nodeList struct {
	source   string // option or variable that gives the list
	value    string
	noConfig bool
	nodes    []job.NodeDef
	byID     map[int]int
	byName   map[string]int
	entries  []int
}

// readNodeList reads the list of nodes from --nodes. Without --nodes, it uses the first variable that is set:
// PSI_NODES, PSI_HOSTS, PSI_HOSTFILE or PSI_PEFILE (placement.md 1.3, 2). If none of them is set, the list contains all
// nodes. With -host or -hostfile, no list is read.
func (c *Settings) readNodeList(in Input) error {
	if c.Nodes = in.Nodes; in.HostsNamed {
		return nil
	}
	l := newNodeList(in)
	err := l.read(in)
	if err == nil && len(l.entries) == 0 && !(in.NoConfig && l.source == "") {
		err = l.emptyError()
	}
	c.Nodes, c.Entries, c.Source = l.nodes, l.entries, l.source
	return err
}

// emptyError returns the error for a list of nodes, or a cluster file, that contains no nodes.
func (l *nodeList) emptyError() error {
	err := &Error{Code: "empty-list", Source: l.source, Token: l.value, Problem: "contains no node", Allowed: []string{"at least one node"}}
	if l.source == "" {
		err.Problem = "the cluster file describes no node"
	}
	return err
}

func newNodeList(in Input) *nodeList {
	l := &nodeList{noConfig: in.NoConfig, nodes: slices.Clip(in.Nodes), byID: make(map[int]int, len(in.Nodes)), byName: make(map[string]int, len(in.Nodes))}
	for i, n := range in.Nodes {
		l.byID[n.ID] = i
		l.byName[lowerASCII(n.Name)] = i
		for _, name := range n.Aliases {
			l.byName[lowerASCII(name)] = i
		}
	}
	return l
}

// read determines where the list of nodes comes from, and parses it.
func (l *nodeList) read(in Input) error {
	if in.Flags.Nodes != nil {
		l.source, l.value = "--nodes", *in.Flags.Nodes
		return l.readIDs()
	}
	for _, v := range []struct {
		name string
		read func() error
	}{
		{"PSI_NODES", l.readIDs},
		{"PSI_HOSTS", l.readHosts},
		{"PSI_HOSTFILE", func() error { return l.readFile(in, l.hostLineReader(HostsUnique(in))) }},
		{"PSI_PEFILE", func() error { return l.readFile(in, l.readCountLine) }},
	} {
		if value, defined := in.Env(v.name); defined {
			l.source, l.value = v.name, value
			return v.read()
		}
	}
	l.addAllNodes()
	return nil
}

// addAllNodes adds each node of the cluster to the list, in ascending order of IDs.
func (l *nodeList) addAllNodes() {
	for i := range l.nodes {
		l.entries = append(l.entries, i)
	}
	l.sortByID()
}

// readIDs parses node IDs and ranges of IDs (placement.md 1.4). The value of --nodes may also contain node
// names. In this case readIDs lists each node once, in the order of the IDs (aprun.md 2).
func (l *nodeList) readIDs() error {
	named := false
	for item := range strings.SplitSeq(l.value, ",") {
		item = trimBlanks(item)
		if item == "" {
			continue
		}
		low, high, isRange := strings.Cut(item, "-")
		first, ok := parseID(low)
		last := first
		if ok && isRange {
			last, ok = parseID(high)
		}
		i, known := l.byName[lowerASCII(item)]
		switch {
		case !ok && known && l.source == "--nodes":
			named = true
			if err := l.addEntries(i, 1, item); err != nil {
				return err
			}
			continue
		case !ok && strings.ContainsFunc(item, isLetter):
			return l.badNodesError(item, "is not a node ID; host names belong in PSI_HOSTS")
		case !ok:
			return l.badNodesError(item, "is not a node ID")
		case last < first:
			return l.badNodesError(item, "must begin with the smaller ID")
		}
		for n := first; n <= last; n++ {
			i, known := l.byID[n]
			if !known {
				return &Error{Code: "unknown-node", Source: l.source, Token: strconv.Itoa(n), Problem: "is not the ID of a node of the cluster", Allowed: l.allowedIDs()}
			}
			if err := l.addEntries(i, 1, item); err != nil {
				return err
			}
		}
	}
	if named {
		l.sortByID()
		l.entries = slices.Compact(l.entries)
	}
	return nil
}

func (l *nodeList) sortByID() {
	slices.SortFunc(l.entries, func(a, b int) int { return cmp.Compare(l.nodes[a].ID, l.nodes[b].ID) })
}

func (l *nodeList) badNodesError(item, problem string) error {
	return &Error{Code: "bad-nodes", Source: l.source, Token: item, Problem: problem, Allowed: l.allowedIDs()}
}

func (l *nodeList) allowedIDs() []string {
	ids := make([]int, len(l.nodes))
	for i, n := range l.nodes {
		ids[i] = n.ID
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return []string{"nothing, because there is no cluster file (doc/cluster.toml is an example)"}
	}
	return []string{"ID", "FIRST-LAST with FIRST <= LAST", "configured IDs: " + idset.Text(ids)}
}

// readHosts parses host names that are separated by blanks or commas (placement.md 1.4).
func (l *nodeList) readHosts() error {
	for _, name := range splitWords(l.value) {
		if isNetworkWord(name) {
			continue
		}
		if err := l.addHost(name, 1); err != nil {
			return err
		}
	}
	return nil
}

// addHost adds a node to the list the given number of times. name is the node's name or an alias of the node.
func (l *nodeList) addHost(name string, times int) error {
	i, known := l.byName[lowerASCII(name)]
	if !known && l.noConfig {
		if !hostlist.IsName(name) {
			return &Error{Code: "unknown-host", Source: l.source, Token: name, Problem: "is not the name of a host", Allowed: []string{"names and addresses of hosts"}}
		}
		i, known = len(l.nodes), true
		l.byName[lowerASCII(name)] = i
		l.nodes = append(l.nodes, job.NodeDef{ID: i, Name: name, Host: name, Origin: l.source})
	}
	if !known {
		return &Error{Code: "unknown-host", Source: l.source, Token: name, Problem: "is not the name of a node of the cluster", Allowed: l.knownNames()}
	}
	return l.addEntries(i, times, name)
}

func (l *nodeList) addEntries(i, times int, token string) error {
	if len(l.entries)+times > maxEntries {
		return l.badNodesError(token, fmt.Sprintf("makes the list too long; at most %d entries are allowed", maxEntries))
	}
	for range times {
		l.entries = append(l.entries, i)
	}
	return nil
}

// knownNames returns at most 50 names of nodes, for a message.
func (l *nodeList) knownNames() []string {
	names := make([]string, len(l.nodes))
	for i, n := range l.nodes {
		names[i] = n.Name
	}
	return ShortenList(names)
}

// ShortenList returns at most 50 of the names. If there are more, the last element says how many are left out.
func ShortenList(names []string) []string {
	const most = 50
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// isNetworkWord reports whether a word of a host list selects a network instead of a node.
func isNetworkWord(word string) bool { return strings.HasPrefix(word, "ifhn=") }

// parseID parses a node ID of one to ten digits. Blanks may surround the ID. It returns false for any other text.
func parseID(text string) (int, bool) {
	text = trimBlanks(text)
	if len(text) > 10 {
		return 0, false
	}
	return parseNumber(text, 0, 1<<62)
}

func isLetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' || r > 127 }

// lowerASCII converts ASCII letters to lower case. It does not change other letters (placement.md 1.4).
func lowerASCII(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}
