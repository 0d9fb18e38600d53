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

// A RankProfile is what is known of a rank besides its exit.
type RankProfile struct {
	Program        string // with its arguments, shortened
	PID            int    // 0: it never ran
	BoundCPUs      string // empty: it was not bound
	LastStderrLine string // last line that it wrote to stderr
	Hint           string // likely reason of its end (REP-3); empty: unknown
}

/*
Report returns the block about what ended the job: the cause, what happened to the other ranks, and
the exit code. It is empty if the job ended well, or if its cause is not reported. about returns the
profile of a rank.

	rank 5 on node02 died: Segmentation fault (signal 11), core dumped
	  program   ./solver -i case7   pid 40213   ran 00:03:12
	  bound to  package 1 cores 8-11   last stderr "ERROR: negative volume in cell 41"
	  also      ranks 6-7 exited with code 3
	  then      mpiexec ended 13 other ranks on 2 nodes: 1 with SIGKILL, 12 with SIGTERM
	  exit code 139

If another attempt follows, its number replaces the exit code.
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

// A NextAttempt describes the attempt that follows one that failed or is moved.
type NextAttempt struct {
	Number          string   // which restart it is, "1 of 3"; empty: a move, which does not count
	ExcludedNodes   []string // lost nodes that are not used again
	LastResortNodes []string // lost nodes that are used again only if the job does not fit without them
}

// sentence returns what the report adds to the cause if the job is started again.
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

// endingLine returns the last line of a report.
func (s *State) endingLine() string {
	if s.NextAttempt != nil {
		return labelledLine("restart", s.NextAttempt.Number)
	}
	return fmt.Sprintf("  exit code %d", s.ExitCode())
}

// labelledLine returns a line of a report, or "" if text is empty.
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

// Exit returns the exit of a rank, or nil if none was reported.
func (s *State) Exit(rank int) *job.Exit {
	if i := slices.IndexFunc(s.Exits, func(e *job.Exit) bool { return e.Rank == rank }); i >= 0 {
		return s.Exits[i]
	}
	return nil
}

// alsoFailed lists the ranks that failed within sameFailureTime of the first (REP-2).
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

// othersText says how the ranks ended that mpiexec ended.
func (s *State) othersText() string {
	if len(s.endedByUs) == 0 {
		return ""
	}
	nodes, bySignal := make(map[int]bool), make(map[int]int)
	for _, e := range s.endedByUs {
		nodes[s.nodeOf(e.Rank)] = true
		bySignal[e.Signal]++
	}
	var how []string
	for _, signal := range slices.Sorted(maps.Keys(bySignal)) {
		if signal != 0 {
			how = append(how, fmt.Sprintf("%d with %s", bySignal[signal], job.Signal(signal)))
		}
	}
	if bySignal[0] > 0 {
		how = append(how, fmt.Sprintf("%d exited when told to", bySignal[0]))
	}
	ranks := "other rank"
	if s.Cause.rule().blames == blameNobody {
		ranks = "rank"
	}
	line := fmt.Sprintf("mpiexec ended %s on %s", text.Count(len(s.endedByUs), ranks), text.Count(len(nodes), "node"))
	if first := s.endedByUs[0].Signal; len(bySignal) == 1 && first != 0 {
		return line + " with " + job.Signal(first).String()
	}
	return line + ": " + strings.Join(how, ", ")
}

// ExitCodes returns one line for each distinct exit code, with the ranks that had it.
func (s *State) ExitCodes() (lines []string) {
	byCode, exited := make(map[int][]int), make([]bool, len(s.ranks))
	for _, e := range s.Exits {
		byCode[e.Status()] = append(byCode[e.Status()], e.Rank)
		exited[e.Rank] = true
	}
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		lines = append(lines, fmt.Sprintf("exit code %d: %s", code, FormatRanks(byCode[code])))
	}
	var none []int
	for rank := range s.ranks {
		if !exited[rank] {
			none = append(none, rank)
		}
	}
	if none != nil {
		lines = append(lines, "no exit code: "+FormatRanks(none))
	}
	return lines
}

// loaderFailed is the exit code of glibc's and musl's loader if a shared library is missing, and of
// a shell that does not find a command. The MPI program has not started then.
const loaderFailed = 127

// NotOurMPI returns a note if the program is an MPI program of which no rank connected to a PMI
// server of ours (REP-5, PMIX-6). Otherwise it returns "". program is the program of rank 0.
func (s *State) NotOurMPI(program string) string {
	if len(s.ranks) < 2 || len(s.Exits) == 0 {
		return ""
	}
	var first *job.Exit // only the program of rank 0 was examined
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

// StuckInFinalize returns a note about ranks that were ended in MPI_Finalize, if a known fault of
// their library can block them there. Otherwise it returns "". MPICH has two PMI barriers in
// MPI_Init, and a third if ranks share a node.
func (s *State) StuckInFinalize() string {
	onNode := make(map[int]int) // number of ranks, by node
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

// sameFailureTime is how long after the first failure another one is listed with it (REP-2).
const sameFailureTime = 100 * time.Millisecond
