package format

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/job/turns"
	"remshell/plan"
	"remshell/sort"
	"remshell/text"
	"remshell/usererr"
)

// RankVariables lists the environment variables that describe a rank to the rank itself. A test of package helper
// checks that the list is complete.
var RankVariables = []string{
	"PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	"MPIEXEC_JOBID", "MPIEXEC_RANK", "MPIEXEC_SIZE", "MPIEXEC_LOCAL_RANK", "MPIEXEC_LOCAL_SIZE",
	"MPIEXEC_NODE_RANK", "MPIEXEC_NNODES", "MPIEXEC_APPNUM", "MPIEXEC_HOST", "MPIEXEC_BINDING",
	"PSID_CPU_PINNING", "__PINNING__",
	"PMI_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "MPIEXEC_SUGGESTED", "GFORTRAN_UNBUFFERED_PRECONNECTED",
}

// JobVariables lists the environment variables that describe the job to its ranks. Each variable is set only if it
// applies to the job. Some of them have the names of variables with which users set options. An mpiexec that a rank
// starts does not take options from these.
var JobVariables = []string{
	"MPIEXEC_MEM_PER_RANK", "MPIEXEC_HUGEPAGES", "MPIEXEC_NODESET", "MPIEXEC_STAGE_DIR", "MPIEXEC_CKPT_DIR", "MPIEXEC_CKPT_SIGNAL",
	"MPIEXEC_ATTEMPT", "MPIEXEC_RESTARTS_LEFT", "MPIEXEC_RESTART_REASON", "MPIEXEC_PREVIOUS_SIZE", "MPIEXEC_LOST_NODES",
}

// DryRun explains a plan (rule DIAG-1). It lists the candidate hosts, the rejected nodes with reasons, and the
// order of nodes with its sort key. It also lists each rank's CPUs and the variables of the ranks. If there is no
// plan, it says why.
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
	if g := v.Plan.Gang; g != nil {
		s.addParagraph("gang", turns.NewView(*g, v.Plan.GangCompetitors).String())
	}
	s.addParagraph("pmi", strings.Join(v.PMIOffers, "\n"))
	if v.Environ != nil {
		s.addParagraph("variables", formatVariables(v))
	}
	return s.String()
}

// paragraphs collects text that consists of several paragraphs. Each paragraph begins with a label.
type paragraphs struct{ strings.Builder }

// addParagraph adds a paragraph with a label. It adds nothing if text is empty.
func (s *paragraphs) addParagraph(label, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(s, "%-10s%s\n", label, strings.TrimRight(EscapeSentence(line), " "))
			label = ""
		}
	}
}

// addVerdict adds the reason why there is no plan, or the queue position at which the job would wait. It adds
// nothing if err is nil.
func (s *paragraphs) addVerdict(err error) {
	var planErr *plan.Error
	switch {
	case errors.As(err, &planErr) && planErr.QueuePosition > 0:
		s.addParagraph("waits", fmt.Sprintf("at position %d: %s", planErr.QueuePosition, planErr.Text))
	case errors.As(err, &planErr) && planErr.Remedy != "":
		s.addParagraph("no plan", planErr.Text+"\nhint: "+planErr.Remedy)
	default:
		text := err.Error()
		if hint := usererr.Hint(err); hint != "" && planErr == nil {
			text += "\nhint: " + hint
		}
		s.addParagraph("no plan", text)
	}
}

// formatOrder returns the host entries in the order in which ranks fill them, the sort key, and each host's value for
// this key.
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

// formatApps describes for each app context how many ranks it starts and what each rank needs.
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
		on += ", the nodes run no other job"
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
			need = "an equal part of all free CPUs each"
		}
		if app.GPUs > 0 {
			need += ", " + text.Count(app.GPUs, "GPU") + " each"
		}
		lines.addRow(ranks, need+on)
		on = ""
	}
	return lines.String()
}

// addNodes adds a line for each rank with the rank's binding, node by node in the order in which nodes are filled.
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

// formatUnknownCPUs lists the ranks of a node whose CPUs mpiexec does not know.
func formatUnknownCPUs(v JobView, n job.NodePlan) string {
	lines := textTable{indent: "    "}
	for app, ranks := range ranksByApp(v, n) {
		if ranks != nil {
			lines.addRow(labelNumbers("rank", ranks), "CPUs unknown", v.programName(app))
		}
	}
	return lines.String()
}

// formatVariables lists the environment variables that mpiexec adds to the environment of the ranks, or removes
// from it.
func formatVariables(v JobView) string {
	var b strings.Builder
	own, copied := ownAssignments(slices.Concat(v.Request.BaseEnv.Set, v.Request.GlobalEnv), v.Environ)
	if copied > 0 {
		fmt.Fprintf(&b, "copied from this environment: %d\n", copied)
	}
	addEnv := func(prefix string, env job.Env, own []string) {
		for _, assignment := range own {
			fmt.Fprintf(&b, "%s%s\n", prefix, quoteAssignment(assignment))
		}
		if len(env.Unset) > 0 {
			fmt.Fprintf(&b, "%snot %s\n", prefix, strings.Join(env.Unset, " "))
		}
	}
	addEnv("", v.Request.BaseEnv, own)
	b.WriteString(formatHostVariables(v.Request.Nodes))
	for i, app := range v.Request.Apps {
		prefix := ""
		if len(v.Request.Apps) > 1 {
			prefix = fmt.Sprintf("for app context %d: ", i+1)
		}
		own, copied := ownAssignments(slices.Concat(app.Env.Set, app.DefaultEnv), v.Environ)
		if copied > 0 {
			fmt.Fprintf(&b, "%scopied from this environment: %d\n", prefix, copied)
		}
		addEnv(prefix, app.Env, own)
	}
	return b.String() + wrapWords(append(slices.Clone(RankVariables), gpuVariables(v)...))
}

// gpuVariables returns the names of the environment variables that assign GPUs to ranks of the plan, or hide GPUs
// from them.
func gpuVariables(v JobView) []string {
	var names []string
	addNames := func(assignments []string) {
		for _, assignment := range assignments {
			if name, _, _ := strings.Cut(assignment, "="); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, n := range v.Plan.Nodes {
		for _, r := range n.Ranks {
			addNames(gpu.VisibleEnv(r.GPUs, func(string) string { return "" }))
			if v.Request.Apps[r.App].GPUs == job.NoGPUs {
				addNames(gpu.HiddenEnv())
			}
		}
	}
	return names
}

// formatHostVariables lists the environment variables that ranks get only on some hosts (env= of a host file).
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

// ownAssignments divides assignments of environment variables into two groups. added contains the assignments that are
// not in environ, the launcher's environment. copied is the number of all other assignments.
func ownAssignments(assignments, environ []string) (added []string, copied int) {
	inEnviron := make(map[string]bool, len(environ))
	for _, assignment := range environ {
		inEnviron[assignment] = true
	}
	for _, assignment := range assignments {
		if inEnviron[assignment] {
			copied++
		} else {
			added = append(added, assignment)
		}
	}
	return added, copied
}

// quoteAssignment returns an assignment NAME=VALUE, with the value in quotes if it contains blanks or quotes. It
// hides the value if it may be secret.
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

// isSecretName reports whether the name of a variable suggests that its value is secret (rule ENV-9).
func isSecretName(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL"},
		func(word string) bool { return strings.Contains(name, word) })
}

// wrapWords joins words with blanks into lines of at most 84 characters.
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
