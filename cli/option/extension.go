package option

import (
	"fmt"
	"slices"
	"strings"
)

// schedulerKeys are what may stand behind -l as a scheduler's job scripts have it, and the options that mean it.
var schedulerKeys = [][2]string{
	{"nodeset", "node-set"}, {"nodesetisoptional", "node-set-optional"}, {"nodesettolerance", "node-set-tolerance"},
	{"nodesetprioritytype", "node-set-priority"}, {"nodesetplus", "node-set-plus"}, {"nodesetdelay", "node-set-delay"},
}

// extension reads -l nodeset=SPEC[,nodesetdelay=T]... (which-hosts.md 4.1), where it stands: -l alone labels
// lines, so the next word has to begin with nodeset and to have a value.
func (s *scanner) extension(name string) bool {
	if name != "-l" || s.pos == len(s.args) || len(s.args[s.pos]) < len("nodeset") ||
		!strings.EqualFold(s.args[s.pos][:len("nodeset")], "nodeset") || !strings.Contains(s.args[s.pos], "=") {
		return false
	}
	at := s.pos
	s.pos++
	for _, pair := range schedulerPairs(s.args[at]) {
		i := slices.IndexFunc(schedulerKeys, func(k [2]string) bool { return strings.EqualFold(k[0], pair[0]) })
		if i < 0 {
			s.fail(fmt.Sprintf("-l: unknown word %q", pair[0]), "of the scheduler's words there are nodeset, nodesetisoptional, nodesettolerance, nodesetprioritytype, nodesetplus and nodesetdelay")
			continue
		}
		m := s.names[schedulerKeys[i][1]]
		s.keep(Given{Option: m.Option, Spelled: "-l " + pair[0], Value: pair[1], Section: s.number, Word: s.first + at, level: s.level, from: s.words.from})
	}
	return true
}

// schedulerPairs cuts a=b,c,d=e into a=b,c and d=e: a piece without = belongs to the value before it.
func schedulerPairs(text string) (pairs [][2]string) {
	for piece := range strings.SplitSeq(text, ",") {
		name, value, named := strings.Cut(piece, "=")
		if !named && pairs != nil {
			pairs[len(pairs)-1][1] += "," + piece
			continue
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs
}
