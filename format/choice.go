package format

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/text"
)

// maxListedSets is how many sets of nodes are told of one by one.
const maxListedSets = 12

// NodeChoice tells which nodes were chosen, and among which sets; empty: nothing was said of that.
//
//	class amd; regions main, not overflow (for jobs of more than 32 CPUs)
//	node set ONEOF:FEATURE of --node-set, BESTFIT, for 16 ranks
//	  switchA  4 nodes  room 28  fits
//	  switchC  2 nodes  room 16  fits  <- chosen
//	nodes n[7-8]; not chosen: n[0-6,9]
func NodeChoice(v JobView) string {
	c := v.Plan.Choice
	if c == nil {
		return ""
	}
	var b strings.Builder
	var heads []string
	if c.Class != "" {
		heads = append(heads, "class "+EscapeField(c.Class))
	}
	if c.Regions != nil {
		heads = append(heads, formatRegions(c))
	}
	if c.ExactPerNode > 0 {
		heads = append(heads, fmt.Sprintf("%s on each node", text.Count(c.ExactPerNode, "rank")))
	}
	if c.Contiguous != "" {
		heads = append(heads, "neighbouring nodes ("+string(c.Contiguous)+")")
	}
	if v.Request.Balance {
		heads = append(heads, "speeds that differ least")
	}
	if heads != nil {
		fmt.Fprintln(&b, strings.Join(heads, "; "))
	}
	if c.NodeSet != nil {
		fmt.Fprintf(&b, "node set %s of %s, %s, for %s\n%s", EscapeSentence(c.NodeSet.Request), c.NodeSet.From, c.NodeSet.Priority, text.Count(v.Plan.Size, "rank"), formatSets(c))
	}
	b.WriteString(formatChosenNodes(v))
	return b.String()
}

// formatRegions names those that the job may enter, and why it may not enter the others of the domain.
func formatRegions(c *job.NodeChoice) string {
	said := slices.Clone(c.Regions)
	if len(said) == 0 {
		said = append(said, "none")
	}
	for _, closed := range c.ClosedRegions {
		why, _, _ := strings.Cut(closed.Text, "; ") // what this job has stands beside it
		said = append(said, fmt.Sprintf("not %s (%s)", closed.Node, why))
	}
	return "regions " + EscapeSentence(strings.Join(said, ", "))
}

// NodeSetRequest tells which request for node sets counts, what modifies it, and who said each of these; empty: there is none.
func NodeSetRequest(s nodeset.Setting) string {
	if s.Policy == "" {
		return ""
	}
	values := map[string]string{
		nodeset.KeyOptional: map[bool]string{true: "yes", false: "no"}[s.Optional], nodeset.KeyTolerance: s.Tolerance.String(),
		nodeset.KeyPriority: string(s.Priority), nodeset.KeyPlus: cmp.Or(s.Plus.String(), "nothing"), nodeset.KeyDelay: s.Delay.String(),
	}
	var t textTable
	t.addRow("request", s.Request.String(), s.Source)
	for _, key := range nodeset.Keys {
		t.addRow(key, values[key], cmp.Or(s.Origins[key], "built in"))
	}
	return t.String()
}

// formatSets tells of each set; of many, of those around the first that was chosen.
func formatSets(c *job.NodeChoice) string {
	from, to := 0, len(c.NodeSet.Sets)
	if to > maxListedSets {
		first := slices.IndexFunc(c.NodeSet.Sets, func(s job.ConsideredSet) bool { return slices.Contains(c.NodeSet.Chosen, s.Name) })
		from = min(max(0, first-maxListedSets/2), to-maxListedSets)
		to = from + maxListedSets
	}
	t := textTable{indent: "  "}
	for _, s := range c.NodeSet.Sets[from:to] {
		fits, chosen := "too small", ""
		if s.Fits {
			fits = "fits"
		}
		if slices.Contains(c.NodeSet.Chosen, s.Name) {
			chosen = "<- chosen"
		}
		t.addRow(EscapeField(s.Name), text.Count(s.Nodes, "node"), fmt.Sprint("room ", s.Capacity), fits, chosen)
	}
	said := t.String()
	if others := len(c.NodeSet.Sets) - (to - from); others > 0 {
		said += fmt.Sprintf("  and %s\n", text.Count(others, "other set"))
	}
	if c.NodeSet.WithoutSet {
		said += "  none of them: the set is optional\n"
	}
	return said
}

// formatChosenNodes tells which nodes were chosen, and which of the usable ones were not.
func formatChosenNodes(v JobView) string {
	var used, others []string
	chosen := make(map[string]bool, len(v.Plan.FillOrder))
	for _, name := range v.Plan.FillOrder {
		if !chosen[name] {
			chosen[name] = true
			used = append(used, name)
		}
	}
	rejected := make(map[string]bool, len(v.Plan.Rejected))
	for _, note := range v.Plan.Rejected {
		rejected[note.Node] = true
	}
	for _, n := range v.Request.Nodes {
		if !chosen[n.Name] && !rejected[n.Name] {
			others = append(others, n.Name)
		}
	}
	line := "nodes " + hostlist.Fold(used)
	if others != nil {
		line += "; not chosen: " + hostlist.Fold(others)
	}
	return line + "\n"
}
