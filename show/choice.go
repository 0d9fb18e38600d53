package show

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

// mostSets is how many sets of nodes are told of one by one.
const mostSets = 12

// Choice tells which nodes were chosen, and among which sets; empty: nothing was said of that.
//
//	class amd; regions main, not overflow (for jobs of more than 32 CPUs)
//	node set ONEOF:FEATURE of --node-set, BESTFIT, for 16 ranks
//	  switchA  4 nodes  room 28  fits
//	  switchC  2 nodes  room 16  fits  <- chosen
//	nodes n[7-8]; not chosen: n[0-6,9]
func Choice(v View) string {
	c := v.Plan.Choice
	if c == nil {
		return ""
	}
	var b strings.Builder
	var heads []string
	if c.Class != "" {
		heads = append(heads, "class "+Word(c.Class))
	}
	if c.Regions != nil {
		heads = append(heads, regions(c))
	}
	if c.Shape > 0 {
		heads = append(heads, fmt.Sprintf("%s on each node", text.Count(c.Shape, "rank")))
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
	if c.Set != nil {
		fmt.Fprintf(&b, "node set %s of %s, %s, for %s\n%s", Clean(c.Set.Request), c.Set.From, c.Set.Priority, text.Count(v.Plan.Size, "rank"), sets(c))
	}
	b.WriteString(chosenNodes(v))
	return b.String()
}

// regions names those that the job may enter, and why it may not enter the others of the domain.
func regions(c *job.Choice) string {
	said := slices.Clone(c.Regions)
	if len(said) == 0 {
		said = append(said, "none")
	}
	for _, closed := range c.Closed {
		why, _, _ := strings.Cut(closed.Text, "; ") // what this job has stands beside it
		said = append(said, fmt.Sprintf("not %s (%s)", closed.Node, why))
	}
	return "regions " + Clean(strings.Join(said, ", "))
}

// Sets tells which request for node sets counts, what modifies it, and who said each of these; empty: there is none.
func Sets(s nodeset.Setting) string {
	if s.Policy == "" {
		return ""
	}
	values := map[string]string{
		nodeset.KeyOptional: map[bool]string{true: "yes", false: "no"}[s.Optional], nodeset.KeyTolerance: s.Tolerance.String(),
		nodeset.KeyPriority: string(s.Priority), nodeset.KeyPlus: cmp.Or(s.Plus.String(), "nothing"), nodeset.KeyDelay: s.Delay.String(),
	}
	var t table
	t.add("request", s.Request.String(), s.From)
	for _, key := range nodeset.Keys {
		t.add(key, values[key], cmp.Or(s.Origins[key], "built in"))
	}
	return t.String()
}

// sets tells of each set; of many, of those around the first that was chosen.
func sets(c *job.Choice) string {
	from, to := 0, len(c.Set.Sets)
	if to > mostSets {
		first := slices.IndexFunc(c.Set.Sets, func(s job.ConsideredSet) bool { return slices.Contains(c.Set.Chosen, s.Name) })
		from = min(max(0, first-mostSets/2), to-mostSets)
		to = from + mostSets
	}
	t := table{indent: "  "}
	for _, s := range c.Set.Sets[from:to] {
		fits, chosen := "too small", ""
		if s.Fits {
			fits = "fits"
		}
		if slices.Contains(c.Set.Chosen, s.Name) {
			chosen = "<- chosen"
		}
		t.add(Word(s.Name), text.Count(s.Nodes, "node"), fmt.Sprint("room ", s.Room), fits, chosen)
	}
	said := t.String()
	if others := len(c.Set.Sets) - (to - from); others > 0 {
		said += fmt.Sprintf("  and %s\n", text.Count(others, "other set"))
	}
	if c.Set.Left {
		said += "  none of them: the set is optional\n"
	}
	return said
}

// chosenNodes tells which nodes were chosen, and which of the usable ones were not.
func chosenNodes(v View) string {
	var used, others []string
	chosen := make(map[string]bool, len(v.Plan.Order))
	for _, name := range v.Plan.Order {
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
