package supervise

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/format"
	"remshell/hostlist"
	"remshell/job"
	"remshell/mpifault"
	"remshell/text"
)

// A RankProfile is what is known of a rank beside its end.
type RankProfile struct {
	Program        string // and its arguments, as far as there is room
	PID            int    // 0: it never ran
	BoundCPUs      string // CPUs; empty: it was not bound
	LastStderrLine string // the last line it wrote to stderr
	Hint           string // evidence for a reason (REP-3)
}

/*
Report is the block about what ended the job: the cause, what became of the others, and
the code. It is empty when all went well, or when its end is nothing to tell of.

	rank 5 on node02 died: Segmentation fault (signal 11), core dumped
	  program   ./solver -i case7   pid 40213   ran 00:03:12
	  bound to  package 1 cores 8-11   last stderr "ERROR: negative volume in cell 41"
	  also      ranks 6-7 exited with code 3
	  then      mpiexec ended 13 other ranks on 2 nodes: 1 with SIGKILL, 12 with SIGTERM
	  exit code 139

Of an attempt that another follows, which one that is takes the place of the code.
*/
func (s *State) Report(about func(rank int) RankProfile) string {
	if s.Cause == nil || s.Cause.rule().text == nil {
		return ""
	}
	text := format.EscapeSentence(strings.TrimRight(s.Cause.Text, "\n")) + s.NextAttempt.sentence()
	if s.NoRestartReason != "" {
		text += "; not starting again: " + format.EscapeSentence(s.NoRestartReason)
	}
	var p RankProfile
	if s.Cause.Rank >= 0 {
		p = about(s.Cause.Rank)
	}
	below := slices.DeleteFunc([]string{
		labelledLine("program", s.program(p)), labelledLine("bound to", boundText(p)), labelledLine("hint", s.Cause.Hint), labelledLine("hint", p.Hint),
		labelledLine("also", s.alsoFailed()), labelledLine("then", s.othersText()), s.endingLine(),
	}, func(line string) bool { return line == "" })
	return strings.Join(slices.Concat([]string{text}, below), "\n")
}

// A NextAttempt is that which follows an attempt.
type NextAttempt struct {
	Number          string   // which one it is, "1 of 3"; empty: none that counts, it is moved
	ExcludedNodes   []string // nodes that were lost, and are not used again
	LastResortNodes []string // nodes that were lost, and are used again where there is no room without them
}

// sentence is what a restart adds to the cause of the end before it.
func (r *NextAttempt) sentence() string {
	switch {
	case r == nil, r.Number == "":
		return ""
	}
	text := fmt.Sprintf("; starting again (%s)", r.Number)
	if len(r.ExcludedNodes) > 0 {
		text += " without " + hostlist.Fold(r.ExcludedNodes)
	}
	if len(r.LastResortNodes) > 0 {
		text += ", with " + hostlist.Fold(r.LastResortNodes) + " as the last choice"
	}
	return text
}

// endingLine is the last line of a report.
func (s *State) endingLine() string {
	if s.NextAttempt != nil {
		return labelledLine("restart", s.NextAttempt.Number)
	}
	return fmt.Sprintf("  exit code %d", s.ExitCode())
}

// labelledLine is a word and what there is to say about it, if anything.
func labelledLine(word, text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("  %-9s %s", word, format.EscapeSentence(text))
}

func (s *State) program(p RankProfile) string {
	if p.PID == 0 {
		return ""
	}
	text := fmt.Sprintf("%s   pid %d", p.Program, p.PID)
	if exit := s.Exit(s.Cause.Rank); exit != nil {
		text += "   ran " + job.FormatClock(exit.Usage.Wall)
	}
	return text
}

func boundText(p RankProfile) string {
	if p.PID == 0 {
		return ""
	}
	text := p.BoundCPUs
	if text == "" {
		text = "no CPUs"
	}
	if p.LastStderrLine != "" {
		text += "   last stderr " + strconv.Quote(p.LastStderrLine)
	}
	return text
}

// Exit is the end of a rank; nil if nobody has told of it.
func (s *State) Exit(rank int) *job.Exit {
	if i := slices.IndexFunc(s.Exits, func(e *job.Exit) bool { return e.Rank == rank }); i >= 0 {
		return s.Exits[i]
	}
	return nil
}

// alsoFailed lists the ranks that failed within a moment of the first (REP-2).
func (s *State) alsoFailed() string {
	byEnd := make(map[string][]int)
	var order []string
	for _, e := range s.failedWith {
		end := exitText(e)
		if byEnd[end] == nil {
			order = append(order, end)
		}
		byEnd[end] = append(byEnd[end], e.Rank)
	}
	for i, end := range order {
		order[i] = FormatRanks(byEnd[end]) + " " + end
	}
	const most = 4
	if more := len(order) - most; more > 0 {
		order = append(order[:most], fmt.Sprint(more, " more ways"))
	}
	return strings.Join(order, "; ")
}

// othersText says what became of the ranks that we ended: others than whose fault it is, if it is anybody's.
func (s *State) othersText() string {
	if len(s.endedByUs) == 0 {
		return ""
	}
	nodes, ways := make(map[int]bool), make(map[int]int)
	for _, e := range s.endedByUs {
		nodes[s.nodeOf(e.Rank)] = true
		ways[e.Signal]++
	}
	var how []string
	for _, signal := range slices.Sorted(maps.Keys(ways)) {
		if signal != 0 {
			how = append(how, fmt.Sprintf("%d with %s", ways[signal], job.Signal(signal)))
		}
	}
	if ways[0] > 0 {
		how = append(how, fmt.Sprintf("%d exited when told to", ways[0]))
	}
	ranks := "other rank"
	if s.Cause.rule().blames == blameNobody {
		ranks = "rank"
	}
	what := fmt.Sprintf("mpiexec ended %s on %s", text.Count(len(s.endedByUs), ranks), text.Count(len(nodes), "node"))
	if first := s.endedByUs[0].Signal; len(ways) == 1 && first != 0 {
		return what + " with " + job.Signal(first).String()
	}
	return what + ": " + strings.Join(how, ", ")
}

// ExitCodes tells each distinct exit code and who had it, a line each.
func (s *State) ExitCodes() (lines []string) {
	byCode, told := make(map[int][]int), make([]bool, len(s.ranks))
	for _, e := range s.Exits {
		byCode[e.Status()] = append(byCode[e.Status()], e.Rank)
		told[e.Rank] = true
	}
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		lines = append(lines, fmt.Sprintf("exit code %d: %s", code, FormatRanks(byCode[code])))
	}
	var none []int
	for rank := range s.ranks {
		if !told[rank] {
			none = append(none, rank)
		}
	}
	if none != nil {
		lines = append(lines, "no exit code: "+FormatRanks(none))
	}
	return lines
}

// loaderFailed is the exit code of glibc's and musl's loader if a shared library is missing, and of a
// shell that does not find a command. The MPI program has not begun then.
const loaderFailed = 127

// NotOurMPI is the note about an MPI program none of whose ranks has found us (REP-5, PMIX-6); empty:
// one has, or it is none. program is that of rank 0.
func (s *State) NotOurMPI(program string) string {
	if len(s.ranks) < 2 || len(s.Exits) == 0 {
		return ""
	}
	var first *job.Exit // only what rank 0 runs was looked at
	for _, e := range s.Exits {
		if e.PMI != job.PMIUnused || e.Signal == 0 && e.Code == loaderFailed {
			return ""
		}
		if e.MPILibrary != "" {
			first = e
		}
	}
	if first == nil {
		return ""
	}
	try := "; try --pmi both"
	switch first.PMIOffer {
	case job.PMIOfferBoth:
		try = ""
	case job.PMIOfferNone:
		try = "; try --pmi auto"
	}
	return fmt.Sprintf("note: no rank connected to this launcher; it offered %s (%s found in %s)%s", first.PMIOffer.Description(), first.MPILibrary, program, try)
}

// StuckInFinalize is the note about ranks that were ended in MPI_Finalize, where a fault of their library is known to hold some for ever;
// empty: none was. An MPICH has two barriers of PMI in MPI_Init, and a third where ranks share a node.
func (s *State) StuckInFinalize() string {
	onNode := make(map[int]int) // ranks
	for rank := range s.ranks {
		onNode[s.nodeOf(rank)]++
	}
	inInit := 2
	if len(onNode) < len(s.ranks) {
		inInit = 3
	}
	var ranks []int
	var known mpifault.Fault
	for _, e := range s.Exits {
		if f, found := mpifault.ByCode(e.LibraryFault); found && e.FinalizeBarrier > inInit && len(onNode) > 1 {
			known, ranks = f, append(ranks, e.Rank)
		}
	}
	if ranks == nil {
		return ""
	}
	slices.Sort(ranks)
	return fmt.Sprintf("note: %s waited in MPI_Finalize. The program %s; %s", FormatRanks(ranks), known.Text(), known.Remedy)
}

// sameFailureTime is how long after the first failure another one belongs to it (REP-2).
const sameFailureTime = 100 * time.Millisecond
