package show

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/plan"
	"remshell/sort"
	"remshell/text"
)

// Told lists the variables by which each rank is told its place. A test of package
// helper sees that they are those.
var Told = []string{
	"PMI_RANK", "PMI_SIZE", "PMI_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
	"MPIEXEC_JOBID", "MPIEXEC_RANK", "MPIEXEC_SIZE", "MPIEXEC_LOCAL_RANK", "MPIEXEC_LOCAL_SIZE",
	"MPIEXEC_NODE_RANK", "MPIEXEC_NNODES", "MPIEXEC_APPNUM", "MPIEXEC_HOST", "MPIEXEC_BINDING",
	"PSID_CPU_PINNING", "__PINNING__",
	"PMI_HOSTNAME", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "MPIEXEC_SUGGESTED", "GFORTRAN_UNBUFFERED_PRECONNECTED",
}

// ToldOfJob lists those by which ranks are told of their job, where there is something to tell. To an mpiexec inside of one they
// are no options, though some have the name of one.
var ToldOfJob = []string{
	"MPIEXEC_MEM_PER_RANK", "MPIEXEC_HUGEPAGES", "MPIEXEC_NODESET", "MPIEXEC_STAGE_DIR", "MPIEXEC_CKPT_DIR", "MPIEXEC_CKPT_SIGNAL",
	"MPIEXEC_ATTEMPT", "MPIEXEC_RESTARTS_LEFT", "MPIEXEC_RESTART_REASON", "MPIEXEC_PREVIOUS_SIZE", "MPIEXEC_LOST_NODES",
}

// DryRun explains a plan to people: the candidates, who was dropped and why, the order
// and its key, which rank gets which CPUs of which node, and the variables of the ranks
// (DIAG-1). Without a plan it says why there is none.
func DryRun(v View) string {
	var s page
	for _, w := range v.Warnings {
		s.say("warning", w.Text)
	}
	s.say("hosts", Hosts(v))
	for _, line := range plan.Folded(v.Plan.Rejected) {
		s.say("not used", line)
	}
	if v.Err != nil {
		s.verdict(v.Err)
		return s.String()
	}
	s.say("choice", Choice(v))
	s.say("order", order(v))
	s.say("ranks", parts(v))
	s.nodes(v)
	s.say("pmi", strings.Join(v.Offers, "\n"))
	if v.Environ != nil {
		s.say("variables", variables(v))
	}
	return s.String()
}

// A page is paragraphs, each with a word in front.
type page struct{ strings.Builder }

// say writes a paragraph; none if there is no text.
func (s *page) say(word, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(s, "%-10s%s\n", word, strings.TrimRight(Clean(line), " "))
			word = ""
		}
	}
}

// verdict says why there is no plan, and whether it would wait.
func (s *page) verdict(err error) {
	var failed *plan.Error
	switch {
	case errors.As(err, &failed) && failed.Position > 0:
		s.say("waits", fmt.Sprintf("at position %d: %s", failed.Position, failed.Text))
	case errors.As(err, &failed) && failed.Way != "":
		s.say("no plan", failed.Text+"\nhint: "+failed.Way)
	default:
		text := err.Error()
		if hint := fault.Hint(err); hint != "" && failed == nil {
			text += "\nhint: " + hint
		}
		s.say("no plan", text)
	}
}

// order tells the turns in filling order, and by what they were sorted, with the value
// of each where one was measured.
func order(v View) string {
	by := sort.Mode(v.Plan.Sort)
	if by == sort.None {
		return hostlist.FoldList(v.Plan.Order) + ", as listed"
	}
	values := make(map[string]string)
	for i := range v.Snapshot.Nodes {
		n := &v.Snapshot.Nodes[i]
		values[n.Name] = sort.Value(n, by)
	}
	var runs []string
	for i := 0; i < len(v.Plan.Order); {
		value, end := values[v.Plan.Order[i]], i+1
		for end < len(v.Plan.Order) && values[v.Plan.Order[end]] == value {
			end++
		}
		run := hostlist.FoldList(v.Plan.Order[i:end])
		if value != "" {
			run += " (" + value + ")"
		}
		runs = append(runs, run)
		i = end
	}
	return strings.Join(runs, " ") + ", by " + strings.ToLower(v.Plan.Sort)
}

// parts tells how many ranks each section starts, and what one of them takes.
func parts(v View) string {
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
	var lines table
	for i, app := range v.Request.Apps {
		ranks := fmt.Sprint(counts[i], " of ", v.program(i))
		if v.program(i) == "" {
			ranks = fmt.Sprint(counts[i])
		}
		need := text.Count(max(1, app.Threads), "CPU") + " each"
		if app.ThreadsFrom != "" {
			need += " by " + app.ThreadsFrom
		}
		if app.AllCPUs {
			need = "all free CPUs in even parts"
		}
		if app.GPUs > 0 {
			need += ", " + text.Count(app.GPUs, "GPU") + " each"
		}
		lines.add(ranks, need+on)
		on = ""
	}
	return lines.String()
}

// nodes tells of each rank, node by node in the order they are filled.
func (s *page) nodes(v View) {
	for _, n := range v.Plan.Nodes {
		fmt.Fprintf(s, "  %s\n", Word(n.Name))
		if len(v.node(n).Topology.Cores) == 0 {
			s.WriteString(blind(v, n))
			continue
		}
		lines := table{indent: "    "}
		places := newPlaces(v.node(n))
		for _, r := range n.Ranks {
			program := ""
			if len(v.Request.Apps) > 1 {
				program = v.program(r.App)
			}
			lines.add(append([]string{fmt.Sprint("rank ", r.Rank), fmt.Sprint("local ", r.Local)}, append(places.of(r), program)...)...)
		}
		s.WriteString(lines.String())
	}
}

// blind tells of the ranks of a node whose CPUs nobody knows.
func blind(v View, n job.NodePlan) string {
	lines := table{indent: "    "}
	for app, ranks := range byApp(v, n) {
		if ranks != nil {
			lines.add(labelled("rank", ranks), "CPUs unknown", v.program(app))
		}
	}
	return lines.String()
}

// variables tells what the environment of a rank has beside that of its node.
func variables(v View) string {
	var b strings.Builder
	own, taken := sift(slices.Concat(v.Request.Base.Set, v.Request.Given), v.Environ)
	if taken > 0 {
		fmt.Fprintf(&b, "%d taken from this environment\n", taken)
	}
	tell := func(who string, env job.Env, own []string) {
		for _, assignment := range own {
			fmt.Fprintf(&b, "%s%s\n", who, quoted(assignment))
		}
		if len(env.Unset) > 0 {
			fmt.Fprintf(&b, "%snot %s\n", who, strings.Join(env.Unset, " "))
		}
	}
	tell("", v.Request.Base, own)
	b.WriteString(hostVariables(v.Request.Nodes))
	for i, app := range v.Request.Apps {
		who := ""
		if len(v.Request.Apps) > 1 {
			who = fmt.Sprintf("for section %d: ", i+1)
		}
		own, taken := sift(slices.Concat(app.Env.Set, app.Told), v.Environ)
		if taken > 0 {
			fmt.Fprintf(&b, "%s%d taken from this environment\n", who, taken)
		}
		tell(who, app.Env, own)
	}
	return b.String() + wrap(append(slices.Clone(Told), devices(v)...))
}

// devices lists the variables by which ranks of the plan are told their GPUs, or that there
// is none.
func devices(v View) []string {
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
			tell(gpu.Visible(r.GPUs, func(string) string { return "" }))
			if v.Request.Apps[r.App].GPUs == job.NoGPUs {
				tell(gpu.Hidden())
			}
		}
	}
	return names
}

// hostVariables tells what ranks get on some hosts only (env= of a host file).
func hostVariables(nodes []job.NodeDef) string {
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
		fmt.Fprintf(&b, "on %s: %s\n", hostlist.Fold(names[assignment]), quoted(assignment))
	}
	return b.String()
}

// sift keeps the assignments that are not simply taken from the launcher's environment,
// and counts the others.
func sift(assignments, environ []string) (own []string, taken int) {
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

// quoted is an assignment that can be told apart from its neighbours.
func quoted(assignment string) string {
	name, value, _ := strings.Cut(assignment, "=")
	if secret(name) {
		return name + "=(not shown)"
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '\'' || r == '"' || r == 0x7f }) {
		return fmt.Sprintf("%s=%q", name, value)
	}
	return assignment
}

// secret reports whether the name of a variable says that its value is for nobody's eyes
// (ENV-9).
func secret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL"},
		func(word string) bool { return strings.Contains(name, word) })
}

// wrap writes words in lines that most terminals are wide enough for.
func wrap(words []string) string {
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
