package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limit"
	"remshell/test/doctable"
)

// examples have one end of a job for each kind of cause, in the order of the kinds.
var examples = []struct {
	kind   Kind
	rules  Rules
	events []any
}{
	{RankExited, Rules{}, []any{exits(2, 3)}},
	{RankDied, Rules{}, []any{dies(2, 11)}},
	{RankNotStarted, Rules{}, []any{NotStarted{2, job.ExitNotFound, "program x: no such file or directory", "did you mean ./x?"}}},
	{MPIAbort, Rules{}, []any{aborts(2, 5, "no convergence")}},
	{PMIJunk, Rules{}, []any{Failed{Kind: PMIJunk, Rank: 2, Text: "pmi: no command in \"xyz\""}}},
	{PMILost, Rules{}, []any{hangsUp(2), after(time.Second), Tick{}}},
	{PMIBroken, Rules{}, []any{Failed{Kind: PMIBroken, Text: "rank 2 ended before the barrier that ranks 0-1 wait in"}, after(time.Second), Tick{}}},
	{NoFinalize, Rules{}, []any{leaves(2), after(5 * time.Second), Tick{}}},
	{LostNode, Rules{}, []any{NodeLost{1, "connection reset by peer"}}},
	{CutNode, Rules{}, []any{NodeCut{NodeLost{1, "Exited of a rank of another node"}}}},
	{StartTimeout, Rules{StartBy: time.Unix(1_000_060, 0)}, []any{Started{0}, Started{1}, after(time.Minute), Tick{}}},
	{RunTimeout, Rules{Timeout: time.Minute}, []any{after(time.Minute), Tick{}}},
	{OverLimit, Rules{Limits: limit.Bounds{limit.VMem: 31457280}}, []any{Sampled{Node: 1, Sample: job.Sample{VMem: 47570944}}}},
	{StdinFailed, Rules{}, []any{badInput}},
	{OutputFailed, Rules{}, []any{diskFull}},
	{StdoutGone, Rules{}, []any{nobodyReads}},
	{BySignal, Rules{}, []any{sig(job.SIGTERM)}},
	{NodeTold, Rules{RM: RM{System: "slurm", Job: "4711"}}, []any{NodeCaught{1, job.SIGTERM, ""}, after(time.Minute)}},
	{RMEnds, Rules{RM: RM{System: "slurm", Job: "4711"}}, []any{NodeLost{1, "srun: n2: task 0: Killed"}, sig(job.SIGTERM)}},
	{ByAsk, Rules{}, []any{Asked{Verb: job.AskEnd, User: "bob", Right: job.Administrator}}},
	{ByMove, Rules{}, []any{Moved{By: Asked{User: "bob", Right: job.Administrator}, To: "n[4-5]"}}},
}

// Every cause has its row and its example, and the manual's table is what becomes of them. With
// -update that is written anew.
func TestCauses(t *testing.T) {
	if len(examples) != len(causes)-1 {
		t.Fatalf("%d examples of %d causes", len(examples), len(causes)-1)
	}
	var b strings.Builder
	b.WriteString("| what ends the job | exit code | whose fault | is told as | counts | not if this is told within 1 s |\n|---|---|---|---|---|---|\n")
	for i, example := range examples {
		state := play(example.rules, example.events)
		if state.Cause == nil || state.Cause.Kind != example.kind || example.kind != Kind(i+1) {
			t.Fatalf("example %d is of %+v, not of kind %d", i+1, state.Cause, example.kind)
		}
		rule := state.Cause.rule()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", rule.name, codeOf(example.rules, example.events), rule.blames,
			sentence(&state), counts(rule), strings.Join(names(rule.yields), "; "))
	}
	doctable.Check(t, "../../doc/supervision.md", "<!-- begin of the table of causes -->\n", "<!-- end of the table of causes -->\n",
		b.String(), *update, "go test ./launch/supervise -run TestCauses -update")
}

// codeOf is the exit code of an example, and whether MPIEXEC_ERROR_CODE would stand for it.
func codeOf(rules Rules, events []any) string {
	state := play(rules, events)
	rules.Ends.Ours = 77
	if replaced := play(rules, events); replaced.ExitCode() == 77 {
		return fmt.Sprintf("%d or `MPIEXEC_ERROR_CODE`", state.ExitCode())
	}
	return fmt.Sprint(state.ExitCode())
}

// sentence is the first line of a report.
func sentence(state *State) string {
	line, _, _ := strings.Cut(state.Report(func(int) Profile { return Profile{} }), "\n")
	if line == "" {
		return ""
	}
	return "`" + line + "`"
}

// counts says when a cause does.
func counts(rule causeRule) string {
	switch {
	case rule.late:
		return "at once, also when all ranks are over"
	case rule.waits > 0:
		return fmt.Sprintf("after %v", rule.waits)
	}
	return "at once"
}

func names(kinds []Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, causes[k].name)
	}
	return all
}
