package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/format"
	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/text"
)

// maxShown is the maximum number of groups of main threads in a text, and maxOther the maximum number of groups of
// other threads.
const (
	maxShown = 40
	maxOther = 20
)

// Format returns the text of a report: its summary, and the call stacks of all ranks as a tree.
func Format(r job.StackReport) string {
	var b strings.Builder
	b.WriteString(Summarize(r, true))
	main := mainThreads(r.Groups)
	formatTree(&b, "call stacks of the main threads:", main)
	formatTree(&b, "other threads:", r.Groups[len(main):])
	return b.String()
}

// Summarize returns a line for each group of main threads, the ranks that another process traces, and the notes of the
// report. If guess is true, it also says which ranks seem to keep the others waiting.
func Summarize(r job.StackReport, guess bool) string {
	var b strings.Builder
	main := mainThreads(r.Groups)
	var rows [][]string
	for _, g := range main[:min(len(main), maxShown)] {
		rows = append(rows, []string{rankText(g), placeText(g), "(" + stateText(g) + ")"})
	}
	b.WriteString(text.Columns("  ", rows))
	if more := len(main) - maxShown; more > 0 {
		fmt.Fprintf(&b, "  and %s\n", text.Count(more, "more group"))
	}
	if call, alike := AllAlike(r.Groups); alike && call != "MPI_Finalize" && !strings.HasPrefix(call, "MPI_Init") {
		fmt.Fprintf(&b, "  all ranks are in the same call at the same place in the program. If %s never returns, compare the arguments of the ranks (root, communicator, count), which mpiexec cannot read.\n", call)
	} else if likely := Likely(r); guess && likely != "" {
		fmt.Fprintf(&b, "  likely: %s\n", likely)
	}
	if ranks := traced(r.Groups); len(ranks) > 0 {
		them := "it"
		if len(ranks) > 1 {
			them = "them"
		}
		fmt.Fprintf(&b, "  not read: %s, because another program, such as gdb or strace, traces %s\n", ranksOf(ranks), them)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", format.EscapeSentence(note))
	}
	return b.String()
}

// Likely returns which ranks seem to keep the others waiting, and why. The text is empty if nothing distinguishes the
// ranks.
func Likely(r job.StackReport) string {
	guess, ok := Explain(r.Groups)
	if !ok {
		return ""
	}
	if len(guess.Ranks) == 1 {
		return fmt.Sprintf("rank %d keeps the others waiting: %s", guess.Ranks[0], guess.Why)
	}
	return fmt.Sprintf("ranks %s keep the others waiting: %s", idset.New(guess.Ranks...), guess.Why)
}

// Calls returns, for each group of main threads, the MPI call that it is in, or "".
func Calls(r job.StackReport) (calls []string) {
	for _, g := range mainThreads(r.Groups) {
		calls = append(calls, InMPI(g))
	}
	return calls
}

// rankText returns the ranks of a group as a text, for the first column of the lines that Summarize returns.
func rankText(g job.StackGroup) string {
	if len(g.Ranks) == 1 && len(g.Nodes) == 1 {
		return fmt.Sprintf("rank %d on %s", g.Ranks[0], format.EscapeField(g.Nodes[0]))
	}
	return ranksOf(g.Ranks)
}

func ranksOf(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	return "ranks " + shorten(idset.New(ranks...).String())
}

// shorten returns a list of ranks, cut off if it is too long for a line.
func shorten(list string) string {
	const most = 60
	if len(list) <= most {
		return list
	}
	return list[:strings.LastIndexByte(list[:most], ',')+1] + "..."
}

// placeText returns the place where a group is: the innermost function with a known line, and the call in
// that function.
func placeText(g job.StackGroup) string {
	if len(g.Frames) == 0 {
		if g.Note != "" {
			return format.EscapeSentence(g.Note)
		}
		return "no stack"
	}
	last := len(g.Frames) - 1
	for i := last; i >= 0; i-- {
		f := g.Frames[i]
		if f.File == "" {
			continue
		}
		place := fmt.Sprintf("%s:%d %s", f.File, f.Line, shortenName(f.Function))
		if i < last {
			place += " -> " + shortenName(g.Frames[i+1].Function)
		}
		return format.EscapeSentence(place)
	}
	var names []string
	for _, f := range g.Frames[max(last-1, 0):] {
		names = append(names, cmp.Or(shortenName(f.Function), "?"))
	}
	return format.EscapeSentence(strings.Join(names, " -> "))
}

// shortenName returns the name of a function, cut off if it is too long for a line. A name in C++ may have hundreds of
// bytes of template arguments.
func shortenName(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most-3], "") + "..."
}

// stateText returns what the threads of a group do, and where.
func stateText(g job.StackGroup) string {
	parts := []string{map[job.StackState]string{job.StackSleeps: "sleeping", job.StackBlocked: "in the kernel", job.StackStopped: "stopped", job.StackEnded: "ended"}[g.State]}
	if g.State == job.StackRuns {
		parts[0] = "running"
		if InMPI(g) != "" {
			parts[0] = "spinning"
		}
	}
	switch {
	case g.State == job.StackStopped && g.Signal != "":
		parts[0] += ": " + format.EscapeField(g.Signal)
	case g.WaitsIn != "" && g.State != job.StackRuns && g.State != job.StackEnded:
		parts[0] += ": " + format.EscapeField(g.WaitsIn)
	}
	if len(g.Ranks) > 1 {
		parts = append(parts, fmt.Sprintf("%d ranks", len(g.Ranks)))
		if len(g.Nodes) > 0 {
			parts[1] += " on " + hostlist.Fold(g.Nodes)
		}
	}
	return strings.Join(parts, ", ")
}

// A node is a function call in the tree of calls. Its children are the calls that this function makes, and its ranks
// are those whose stacks contain the call.
type node struct {
	frame    job.StackFrame
	ranks    []int
	threads  int
	thread   string
	children []*node
}

// formatTree writes the calls of groups as a tree. It writes nothing if there are no calls.
func formatTree(b *strings.Builder, title string, groups []job.StackGroup) {
	root := &node{}
	shown := 0
	for _, g := range groups {
		if len(g.Frames) == 0 {
			continue
		}
		if shown++; shown > maxShown || g.Thread != "" && shown > maxOther {
			continue
		}
		root.add(g)
	}
	if shown == 0 {
		return
	}
	var rows [][]string
	for _, n := range root.children {
		n.rows("", nil, &rows)
	}
	fmt.Fprintf(b, "\n%s\n%s", title, text.Columns("  ", rows))
}

// add adds the calls of a group to the tree below n.
func (n *node) add(g job.StackGroup) {
	for i, f := range g.Frames {
		at := slices.IndexFunc(n.children, func(c *node) bool { return c.frame == f && (i > 0 || c.thread == g.Thread) })
		if at < 0 {
			at = len(n.children)
			n.children = append(n.children, &node{frame: f})
			if i == 0 {
				n.children[at].thread = g.Thread
			}
		}
		n = n.children[at]
		n.ranks = append(n.ranks, g.Ranks...)
		n.threads += g.Threads
	}
}

// rows appends a row for n and for each call below n. above contains the ranks of the caller. A row that has the same
// ranks as its caller does not list them.
func (n *node) rows(indent string, above []int, rows *[][]string) {
	ranks := idset.New(n.ranks...)
	who := ""
	if !slices.Equal(ranks, above) {
		who = ranksOf(ranks)
		if n.thread != "" {
			who += ", " + text.Count(n.threads, "thread") + " " + format.EscapeField(n.thread)
		}
	}
	*rows = append(*rows, []string{indent + frameText(n.frame), who})
	for _, c := range n.children {
		c.rows(indent+"  ", ranks, rows)
	}
}

// frameText returns the text of a call: the function, and its file and line or its library.
func frameText(f job.StackFrame) string {
	name := format.EscapeSentence(f.Function)
	if name == "" {
		name = "?"
	}
	switch {
	case f.File != "":
		return fmt.Sprintf("%s (%s:%d)", name, format.EscapeField(f.File), f.Line)
	case f.Library != "":
		return fmt.Sprintf("%s (%s)", name, format.EscapeField(f.Library))
	}
	return name
}
