package supervise

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/test/doctable"
)

// examples has one failed job for each kind of cause, in the order of the kinds.
var examples = []struct {
	kind   Kind
	rules  Policy
	events []any
}{
	{RankExited, Policy{}, []any{exits(2, 3)}},
	{RankDied, Policy{}, []any{dies(2, 11)}},
	{RankNotStarted, Policy{}, []any{RankStartFailed{2, job.ExitNotFound, "program x: no such file or directory", "did you mean ./x?"}}},
	{MPIAbort, Policy{}, []any{aborts(2, 5, "no convergence")}},
	{PMIMalformed, Policy{}, []any{Failure{Kind: PMIMalformed, Rank: 2, Text: "pmi: no command in \"xyz\""}}},
	{PMIDisconnected, Policy{}, []any{hangsUp(2), after(time.Second), Tick{}}},
	{PMIBarrierBroken, Policy{}, []any{Failure{Kind: PMIBarrierBroken, Text: "rank 2 ended before the barrier that ranks 0-1 wait in"}, after(time.Second), Tick{}}},
	{NotFinalized, Policy{}, []any{leaves(2), after(5 * time.Second), Tick{}}},
	{NodeConnectionLost, Policy{}, []any{NodeLost{1, "connection reset by peer"}}},
	{NodeViolation, Policy{}, []any{NodeViolated{NodeLost{1, "Exited of a rank of another node"}}}},
	{StartTimeout, Policy{StartBy: time.Unix(1_000_060, 0)}, []any{RankStarted{0}, RankStarted{1}, after(time.Minute), Tick{}}},
	{RunTimeout, Policy{Timeout: time.Minute}, []any{after(time.Minute), Tick{}}},
	{OverLimit, Policy{}, []any{LimitExceeded{limits.Excess{Name: limits.VMem, Used: 47570944, Allowed: 31457280}}}},
	{StdinFailed, Policy{}, []any{badInput}},
	{OutputFailed, Policy{}, []any{diskFull}},
	{StdoutGone, Policy{}, []any{nobodyReads}},
	{BySignal, Policy{}, []any{sig(job.SIGTERM)}},
	{NodeToldToEnd, Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, []any{HelperSignaled{1, job.SIGTERM, ""}, after(time.Minute)}},
	{BatchEndsJob, Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, []any{NodeLost{1, "srun: n2: task 0: Killed"}, sig(job.SIGTERM)}},
	{EndedByRequest, Policy{}, []any{Failure{Kind: EndedByRequest, Text: "the job was ended by bob (administrator) with --end"}}},
	{EndedByMove, Policy{}, []any{MoveReady{"the job was moved to n[4-5] by bob (administrator) with --migrate"}}},
	{NoProgress, Policy{}, []any{Failure{Kind: NoProgress, Text: "no progress for 60 s: 2 of 3 ranks wait in MPI_Allreduce"}}},
}

// Every cause has a row in causes and an example. The table in doc/supervision.md lists the
// outcomes; -update writes it.
func TestCauses(t *testing.T) {
	if len(examples) != len(causes)-1 {
		t.Fatalf("%d examples of %d causes", len(examples), len(causes)-1)
	}
	var b strings.Builder
	b.WriteString("| cause | exit code | at fault | text | counts | replaced by these within 1 s |\n|---|---|---|---|---|---|\n")
	for i, example := range examples {
		state := play(example.rules, example.events)
		if state.Cause == nil || state.Cause.Kind != example.kind || example.kind != Kind(i+1) {
			t.Fatalf("example %d is of %+v, not of kind %d", i+1, state.Cause, example.kind)
		}
		rule := state.Cause.rule()
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", rule.name, codeOf(example.rules, example.events), rule.blames,
			sentence(&state), counts(rule), strings.Join(names(rule.yieldsTo), "; "))
	}
	doctable.CheckTable(t, "../../doc/supervision.md", "<!-- begin of the table of causes -->\n", "<!-- end of the table of causes -->\n",
		b.String(), *update, "go test ./launch/supervise -run TestCauses -update")
}

// Each reason that reports give is in their schema, for the job and for its attempts (RM-53).
func TestReasonsAreInTheSchema(t *testing.T) {
	schema, err := os.ReadFile("../../doc/json/report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	const lists = 2
	for _, rule := range causes[1:] {
		found := 0
		for line := range strings.Lines(string(schema)) {
			if strings.Contains(line, `"host_lost"`) && strings.Contains(line, `"`+rule.reason+`"`) {
				found++
			}
		}
		if found != lists {
			t.Errorf("%d of %d lists contain %q, the reason if %s", found, lists, rule.reason, rule.name)
		}
	}
}

// codeOf returns the exit code of an example, and whether MPIEXEC_ERROR_CODE replaces it.
func codeOf(rules Policy, events []any) string {
	state := play(rules, events)
	rules.EndPolicy.ErrorCode = 77
	if replaced := play(rules, events); replaced.ExitCode() == 77 {
		return fmt.Sprintf("%d or `MPIEXEC_ERROR_CODE`", state.ExitCode())
	}
	return fmt.Sprint(state.ExitCode())
}

// sentence returns the first line of a report.
func sentence(state *State) string {
	line, _, _ := strings.Cut(state.Report(func(int) RankProfile { return RankProfile{} }, Sequel{}), "\n")
	if line == "" {
		return ""
	}
	return "`" + line + "`"
}

// counts describes when a cause counts.
func counts(rule causeRule) string {
	switch {
	case rule.afterRanks:
		return "at once, also when all ranks are over"
	case rule.delay > 0:
		return fmt.Sprintf("after %v", rule.delay)
	}
	return "at once"
}

func names(kinds []Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, causes[k].name)
	}
	return all
}
