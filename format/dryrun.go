package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/plan"
	"remshell/sort"
	"remshell/text"
	"remshell/usererr"
)

// RankVariables lists the variables by which each rank is told its place. A test of package
// helper sees that they are those.
var RankVariables = []string{
	"PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	"MPIEXEC_JOBID", "MPIEXEC_RANK", "MPIEXEC_SIZE", "MPIEXEC_LOCAL_RANK", "MPIEXEC_LOCAL_SIZE",
	"MPIEXEC_NODE_RANK", "MPIEXEC_NNODES", "MPIEXEC_APPNUM", "MPIEXEC_HOST", "MPIEXEC_BINDING",
	"PSID_CPU_PINNING", "__PINNING__",
	"PMI_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "MPIEXEC_SUGGESTED", "GFORTRAN_UNBUFFERED_PRECONNECTED",
}

// JobVariables lists those by which ranks are told of their job, where there is something to tell. To an mpiexec inside of one they
// are no options, though some have the name of one.
var JobVariables = []string{
	"MPIEXEC_MEM_PER_RANK", "MPIEXEC_HUGEPAGES", "MPIEXEC_NODESET", "MPIEXEC_STAGE_DIR", "MPIEXEC_CKPT_DIR", "MPIEXEC_CKPT_SIGNAL",
	"MPIEXEC_ATTEMPT", "MPIEXEC_RESTARTS_LEFT", "MPIEXEC_RESTART_REASON", "MPIEXEC_PREVIOUS_SIZE", "MPIEXEC_LOST_NODES",
}

// DryRun explains a plan to people: the candidates, who was dropped and why, the order
// and its key, which rank gets which CPUs of which node, and the variables of the ranks
// (DIAG-1). Without a plan it says why there is none.
func DryRun(v JobView) string {
	var s paragraphs
	for _, w := range v.Warnings {
		s.addParagraph("warning", w.Text)
	}
	s.addParagraph("hosts", Hosts(v))
	for _, line := range plan.FoldReasons(v.Plan.Rejected) {
		s.addParagraph("not used", line)
	}
	if v.Err != nil {
		s.addVerdict(v.Err)
		return s.String()
	}
	s.addParagraph("choice", NodeChoice(v))
	s.addParagraph("order", formatOrder(v))
	s.addParagraph("ranks", formatApps(v))
	s.addNodes(v)
	s.addParagraph("pmi", strings.Join(v.PMIOffers, "\n"))
	if v.Environ != nil {
		s.addParagraph("variables", formatVariables(v))
	}
	return s.String()
}

// A paragraphs is paragraphs, each with a word in front.
type paragraphs struct{ strings.Builder }

// addParagraph writes a paragraph; none if there is no text.
func (s *paragraphs) addParagraph(word, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(s, "%-10s%s\n", word, strings.TrimRight(EscapeSentence(line), " "))
			word = ""
		}
	}
}

// addVerdict says why there is no plan, and whether it would wait.
func (s *paragraphs) addVerdict(err error) {
	var failed *plan.Error
	switch {
	case errors.As(err, &failed) && failed.QueuePosition > 0:
		s.addParagraph("waits", fmt.Sprintf("at position %d: %s", failed.QueuePosition, failed.Text))
	case errors.As(err, &failed) && failed.Remedy != "":
		s.addParagraph("no plan", failed.Text+"\nhint: "+failed.Remedy)
	default:
		text := err.Error()
		if hint := usererr.Hint(err); hint != "" && failed == nil {
			text += "\nhint: " + hint
		}
		s.addParagraph("no plan", text)
	}
}

// formatOrder tells the turns in filling order, and by what they were sorted, with the value
// of each where one was measured.
func formatOrder(v JobView) string {
	by := sort.Mode(v.Plan.Sort)
	if by == sort.None {
		return hostlist.FoldList(v.Plan.FillOrder) + ", as listed"
	}
	values := make(map[string]string)
	for i := range v.Snapshot.Nodes {
		n := &v.Snapshot.Nodes[i]
		values[n.Name] = sort.MeasuredValue(n, by)
	}
	var runs []string
	for i := 0; i < len(v.Plan.FillOrder); {
		value, end := values[v.Plan.FillOrder[i]], i+1
		for end < len(v.Plan.FillOrder) && values[v.Plan.FillOrder[end]] == value {
			end++
		}
		run := hostlist.FoldList(v.Plan.FillOrder[i:end])
		if value != "" {
			run += " (" + value + ")"
		}
		runs = append(runs, run)
		i = end
	}
	return strings.Join(runs, " ") + ", by " + strings.ToLower(v.Plan.Sort)
}

// formatApps tells how many ranks each section starts, and what one of them takes.
func formatApps(v JobView) string {
	counts := make([]int, len(v.Request.Apps))
	for _, n := range v.Plan.Nodes {
		for _, r := range n.Ranks {
			counts[r.App]++
		}
	}
	on := " on " + text.Count(len(v.Plan.Nodes), "node")
	if v.Plan.Overbooked {
		on += ", sharing CPUs"
	}
	if v.Plan.Exclusive {
		on += ", nobody else on the nodes"
	}
	var lines textTable
	for i, app := range v.Request.Apps {
		ranks := fmt.Sprint(counts[i], " of ", v.programName(i))
		if v.programName(i) == "" {
			ranks = fmt.Sprint(counts[i])
		}
		need := text.Count(max(1, app.CPUsPerRank), "CPU") + " each"
		if app.CPUsPerRankOrigin != "" {
			need += " by " + app.CPUsPerRankOrigin
		}
		if app.AllCPUs {
			need = "all free CPUs in even parts"
		}
		if app.GPUs > 0 {
			need += ", " + text.Count(app.GPUs, "GPU") + " each"
		}
		lines.addRow(ranks, need+on)
		on = ""
	}
	return lines.String()
}

// addNodes tells of each rank, node by node in the order they are filled.
func (s *paragraphs) addNodes(v JobView) {
	for _, n := range v.Plan.Nodes {
		fmt.Fprintf(s, "  %s\n", EscapeField(n.Name))
		if len(v.nodeOf(n).Topology.Cores) == 0 {
			s.WriteString(formatUnknownCPUs(v, n))
			continue
		}
		lines := textTable{indent: "    "}
		places := newCoreFinder(v.nodeOf(n))
		for _, r := range n.Ranks {
			program := ""
			if len(v.Request.Apps) > 1 {
				program = v.programName(r.App)
			}
			lines.addRow(append([]string{fmt.Sprint("rank ", r.Rank), fmt.Sprint("local ", r.Local)}, append(places.bindingCells(r), program)...)...)
		}
		s.WriteString(lines.String())
	}
}

// formatUnknownCPUs tells of the ranks of a node whose CPUs nobody knows.
func formatUnknownCPUs(v JobView, n job.NodePlan) string {
	lines := textTable{indent: "    "}
	for app, ranks := range ranksByApp(v, n) {
		if ranks != nil {
			lines.addRow(labelNumbers("rank", ranks), "CPUs unknown", v.programName(app))
		}
	}
	return lines.String()
}

// formatVariables tells what the environment of a rank has beside that of its node.
func formatVariables(v JobView) string {
	var b strings.Builder
	own, taken := ownAssignments(slices.Concat(v.Request.BaseEnv.Set, v.Request.GlobalEnv), v.Environ)
	if taken > 0 {
		fmt.Fprintf(&b, "%d taken from this environment\n", taken)
	}
	tell := func(who string, env job.Env, own []string) {
		for _, assignment := range own {
			fmt.Fprintf(&b, "%s%s\n", who, quoteAssignment(assignment))
		}
		if len(env.Unset) > 0 {
			fmt.Fprintf(&b, "%snot %s\n", who, strings.Join(env.Unset, " "))
		}
	}
	tell("", v.Request.BaseEnv, own)
	b.WriteString(formatHostVariables(v.Request.Nodes))
	for i, app := range v.Request.Apps {
		who := ""
		if len(v.Request.Apps) > 1 {
			who = fmt.Sprintf("for app context %d: ", i+1)
		}
		own, taken := ownAssignments(slices.Concat(app.Env.Set, app.DefaultEnv), v.Environ)
		if taken > 0 {
			fmt.Fprintf(&b, "%s%d taken from this environment\n", who, taken)
		}
		tell(who, app.Env, own)
	}
	return b.String() + wrapWords(append(slices.Clone(RankVariables), gpuVariables(v)...))
}

// gpuVariables lists the variables by which ranks of the plan are told their GPUs, or that there
// is none.
func gpuVariables(v JobView) []string {
	var names []string
	tell := func(assignments []string) {
		for _, assignment := range assignments {
			if name, _, _ := strings.Cut(assignment, "="); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, n := range v.Plan.Nodes {
		for _, r := range n.Ranks {
			tell(gpu.VisibleEnv(r.GPUs, func(string) string { return "" }))
			if v.Request.Apps[r.App].GPUs == job.NoGPUs {
				tell(gpu.HiddenEnv())
			}
		}
	}
	return names
}

// formatHostVariables tells what ranks get on some hosts only (env= of a host file).
func formatHostVariables(nodes []job.NodeDef) string {
	var b strings.Builder
	names := make(map[string][]string) // by assignment
	var all []string
	for _, n := range nodes {
		for _, assignment := range n.Env {
			if names[assignment] == nil {
				all = append(all, assignment)
			}
			names[assignment] = append(names[assignment], n.Name)
		}
	}
	for _, assignment := range all {
		fmt.Fprintf(&b, "on %s: %s\n", hostlist.Fold(names[assignment]), quoteAssignment(assignment))
	}
	return b.String()
}

// ownAssignments keeps the assignments that are not simply taken from the launcher's environment,
// and counts the others.
func ownAssignments(assignments, environ []string) (own []string, taken int) {
	ours := make(map[string]bool, len(environ))
	for _, assignment := range environ {
		ours[assignment] = true
	}
	for _, assignment := range assignments {
		if ours[assignment] {
			taken++
		} else {
			own = append(own, assignment)
		}
	}
	return own, taken
}

// quoteAssignment is an assignment that can be told apart from its neighbours.
func quoteAssignment(assignment string) string {
	name, value, _ := strings.Cut(assignment, "=")
	if isSecretName(name) {
		return name + "=(not shown)"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '\'' || r == '"' || r == 0x7f }) {
		return fmt.Sprintf("%s=%q", name, value)
	}
	return assignment
}

// isSecretName reports whether the name of a variable says that its value is for nobody's eyes
// (ENV-9).
func isSecretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL"},
		func(word string) bool { return strings.Contains(name, word) })
}

// wrapWords writes words in lines that most terminals are wide enough for.
func wrapWords(words []string) string {
	const width = 84
	var b strings.Builder
	at := 0
	for _, word := range words {
		if at += len(word) + 1; at > width {
			b.WriteByte('\n')
			at = len(word) + 1
		}
		b.WriteString(word + " ")
	}
	return b.String()
}
