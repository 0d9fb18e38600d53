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

// maxListedSets is the maximum number of node sets that are listed one by one.
const maxListedSets = 12

// NodeChoice lists the nodes that were chosen, and the node sets from which one was chosen. It returns "" if the plan
// made no choice.
//
//	class amd; regions main, not overflow (it is for jobs of more than 32 CPUs)
//	node set ONEOF:FEATURE (from --node-set), chosen by BESTFIT for 16 ranks
//	  switchA  4 nodes  28 ranks fit
//	  switchB  3 nodes  9 ranks fit   too small
//	  switchC  2 nodes  16 ranks fit  <- chosen
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
		heads = append(heads, "hosts of similar speed")
	}
	if heads != nil {
		fmt.Fprintln(&b, strings.Join(heads, "; "))
	}
	if c.NodeSet != nil {
		fmt.Fprintf(&b, "node set %s (from %s), chosen by %s for %s\n%s", EscapeSentence(c.NodeSet.Request), c.NodeSet.From, c.NodeSet.Priority, text.Count(v.Plan.Size, "rank"), formatSets(c))
	}
	b.WriteString(formatChosenNodes(v))
	return b.String()
}

// formatRegions returns the regions (parts of the cluster) that the job may use. For each other region, it adds the
// reason why the job must not use it.
func formatRegions(c *job.NodeChoice) string {
	texts := slices.Clone(c.Regions)
	if len(texts) == 0 {
		texts = append(texts, "none")
	}
	for _, closed := range c.ClosedRegions {
		why, _, _ := strings.Cut(closed.Text, ", but ") // the rest repeats what this job needs
		texts = append(texts, fmt.Sprintf("not %s (it %s)", closed.Node, why))
	}
	return "regions " + EscapeSentence(strings.Join(texts, ", "))
}

// NodeSetRequest returns the effective request for node sets with its modifiers, and says where each of these was
// specified. It returns "" if there is no request.
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

// formatSets lists the node sets. If there are more than maxListedSets, it lists that many sets around the
// first chosen one.
func formatSets(c *job.NodeChoice) string {
	from, to := 0, len(c.NodeSet.Sets)
	if to > maxListedSets {
		first := slices.IndexFunc(c.NodeSet.Sets, func(s job.ConsideredSet) bool { return slices.Contains(c.NodeSet.Chosen, s.Name) })
		from = min(max(0, first-maxListedSets/2), to-maxListedSets)
		to = from + maxListedSets
	}
	t := textTable{indent: "  "}
	for _, s := range c.NodeSet.Sets[from:to] {
		note, fit := "", " fit"
		switch {
		case slices.Contains(c.NodeSet.Chosen, s.Name):
			note = "<- chosen"
		case !s.Fits:
			note = "too small"
		}
		if s.Capacity == 1 {
			fit = " fits"
		}
		t.addRow(EscapeField(s.Name), text.Count(s.Nodes, "node"), text.Count(s.Capacity, "rank")+fit, note)
	}
	lines := t.String()
	if others := len(c.NodeSet.Sets) - (to - from); others > 0 {
		lines += fmt.Sprintf("  and %s\n", text.Count(others, "other set"))
	}
	if c.NodeSet.WithoutSet {
		lines += "  no node set can run the job, so the job uses any hosts (the request is optional)\n"
	}
	return lines
}

// formatChosenNodes lists the nodes that were chosen, and the usable nodes that were not chosen.
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
