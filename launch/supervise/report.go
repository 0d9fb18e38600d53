package supervise

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"remshell/format"
	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// A RankProfile contains the data that a report shows about a rank in addition to how the rank ended.
type RankProfile struct {
	Program        string // with its arguments, shortened
	PID            int    // 0: it never ran
	BoundCPUs      string // empty: it was not bound
	LastStderrLine string // last line that it wrote to stderr
	Hint           string // likely reason of its end (REP-3); empty: unknown
}

/*
Report returns the text about the end of the job: the cause, what happened to the other ranks, and the exit code. It is
empty if the job succeeded, or if the cause of its end is not reported. profileOf returns the profile of a rank.

	rank 5 on node02 died: Segmentation fault (signal 11), core dumped
	  program   ./solver -i case7   pid 40213   ran 00:03:12
	  bound to  package 1 cores 8-11   last stderr "ERROR: negative volume in cell 41"
	  also      ranks 6-7 exited with code 3
	  then      mpiexec ended 13 other ranks on 2 nodes: 1 with SIGKILL, 12 with SIGTERM
	  exit code 139

If another attempt follows, the last line has the number of that attempt instead of the exit code.
*/
func (s *State) Report(profileOf func(rank int) RankProfile, follows Sequel) string {
	if s.Cause == nil || s.Cause.rule().text == nil {
		return ""
	}
	text := format.EscapeSentence(strings.TrimRight(s.Cause.Text, "\n")) + follows.Attempt.sentence()
	if follows.WhyNone != "" {
		text += "; the job is not started again: " + format.EscapeSentence(follows.WhyNone)
	}
	var p RankProfile
	if s.Cause.Rank >= 0 {
		p = profileOf(s.Cause.Rank)
	}
	below := slices.DeleteFunc([]string{
		labelledLine("program", s.program(p)), labelledLine("bound to", boundText(p)), labelledLine("hint", s.Cause.Hint), labelledLine("hint", p.Hint),
		labelledLine("also", s.alsoFailed()), labelledLine("then", s.othersText()), s.endingLine(follows.Attempt),
	}, func(line string) bool { return line == "" })
	return strings.Join(slices.Concat([]string{text}, below), "\n")
}

// A Sequel says what follows an attempt (one run of all ranks). The zero value means that nothing follows.
type Sequel struct {
	Attempt *NextAttempt // nil: none
	WhyNone string       // why the job is not restarted although it has a restart policy; empty: nothing is reported
}

// A NextAttempt describes the attempt (one run of all ranks) that follows a failure or a move to other nodes.
type NextAttempt struct {
	Number          string   // which restart it is, "1 of 3"; empty: a move, which does not count
	ExcludedNodes   []string // lost nodes that are not used again
	LastResortNodes []string // lost nodes that are used again only if the job does not fit without them
}

// sentence returns the sentence that the report adds to the cause if the job is restarted. If r is nil, it returns "".
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
		text += ", with " + hostlist.Fold(r.LastResortNodes) + " only if no other host is free"
	}
	return text
}

// endingLine returns the last line of a report. The line names the exit code or the next attempt (one run of all
// ranks).
func (s *State) endingLine(next *NextAttempt) string {
	if next != nil {
		return labelledLine("restart", next.Number)
	}
	return fmt.Sprintf("  exit code %d", s.ExitCode())
}

// labelledLine returns a line of a report that begins with the given word, or "" if text is empty.
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

// Exit returns how a rank has ended, or nil if its end has not been reported.
func (s *State) Exit(rank int) *job.Exit {
	if i := slices.IndexFunc(s.Exits, func(e *job.Exit) bool { return e.Rank == rank }); i >= 0 {
		return s.Exits[i]
	}
	return nil
}

// alsoFailed returns the text about ranks that failed within sameFailureTime after the first failure (rule
// REP-2).
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

// othersText returns the text about the ranks that mpiexec has ended. It says how many there are, and with which
// signals mpiexec ended them.
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
		how = append(how, fmt.Sprintf("%d exited at the request of mpiexec", bySignal[0]))
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

// ExitCodes returns a line for each different exit code, with its ranks, and a line for ranks without an exit code.
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
		lines = append(lines, "ranks without an exit code: "+FormatRanks(none))
	}
	return lines
}
