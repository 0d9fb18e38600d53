package supervise

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limits"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

// A stage is a job in one phase, before an event.
type stage struct {
	name   string
	events []any // events that lead to the phase
}

var stages = []stage{
	{"Running", nil},
	{"Interrupted", []any{sig(job.SIGINT)}},
	{"Ending", []any{exits(1, 7)}},
	{"Killing", []any{sig(job.SIGTERM), sig(job.SIGTERM)}},
	{"Lingering", well},
}

// occurrences are the rows of the table.
var occurrences = []struct {
	what   string
	rules  Policy
	events []any
}{
	{"a rank ends with 0", Policy{}, []any{exits(2, 0)}},
	{"a rank ends with 3", Policy{}, []any{exits(2, 3)}},
	{"the same with `-K0`", Policy{EndPolicy: job.EndPolicy{KeepOnExit: true}}, []any{exits(2, 3)}},
	{"a rank dies by signal 11", Policy{}, []any{dies(2, 11)}},
	{"a rank ends or dies in any way, with `-disable-auto-cleanup`", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, []any{dies(2, 11), hangsUp(2), stuck, after(5 * time.Second), Tick{}}},
	{"all ranks end with 0", Policy{}, well},
	{"a program cannot be executed", Policy{}, []any{RankStartFailed{2, 126, "program x: permission denied", ""}}},
	{"a rank calls MPI_Abort(5)", Policy{}, []any{aborts(2, 5, "")}},
	{"a rank calls MPI_Abort(0)", Policy{}, []any{aborts(2, 0, "")}},
	{"a rank violates the PMI protocol", Policy{}, []any{Failure{Kind: PMIMalformed, Rank: 2, Text: "pmi: junk"}}},
	{"a rank loses its PMI connection, 1 s passes", Policy{}, []any{hangsUp(2), after(time.Second), Tick{}}},
	{"a barrier can never complete, 1 s passes", Policy{}, []any{stuck, after(time.Second), Tick{}}},
	{"a rank ends without MPI_Finalize, 5 s pass", Policy{}, []any{leaves(2), after(5 * time.Second), Tick{}}},
	{"a node is lost", Policy{}, []any{NodeLost{1, "reset"}}},
	{"all nodes are lost", Policy{}, []any{NodeLost{0, "reset"}, NodeLost{1, "reset"}}},
	{"the last node has nothing left", Policy{}, sequence(well, drained)},
	{"a node cannot get rid of processes for 20 s", Policy{}, []any{after(20*time.Second + linger + lingerGrace), Tick{}}},
	{"`-timeout` expires", Policy{Timeout: time.Hour}, []any{after(time.Hour), Tick{}}},
	{"the same with `--on-timeout stacks`", Policy{Timeout: time.Hour, EndPolicy: job.EndPolicy{StacksOnTimeout: true}}, []any{after(time.Hour), Tick{}}},
	{"the job has more than `--limit` allows", Policy{}, []any{LimitExceeded{limits.Excess{Name: limits.Mem, Used: 101, Allowed: 100}}}},
	{"`--limit walltime` is over", Policy{WallTime: TimeLimit{Max: time.Hour}}, []any{after(time.Hour + 1), Tick{}}},
	{"`--start-timeout` expires", Policy{StartBy: time.Unix(1_000_060, 0)}, []any{after(time.Minute), Tick{}}},
	{"^C", Policy{}, []any{sig(job.SIGINT)}},
	{"^C, again", Policy{}, []any{sig(job.SIGINT), sig(job.SIGINT)}},
	{"^C, for the third time", Policy{}, []any{sig(job.SIGINT), sig(job.SIGINT), sig(job.SIGINT)}},
	{"SIGTERM", Policy{}, []any{sig(job.SIGTERM)}},
	{"SIGTERM, again", Policy{}, []any{sig(job.SIGTERM), sig(job.SIGTERM)}},
	{"SIGHUP", Policy{}, []any{sig(job.SIGHUP)}},
	{"^Z", Policy{}, []any{sig(job.SIGTSTP)}},
	{"SIGUSR1", Policy{}, []any{sig(job.SIGUSR1)}},
	{"the standard output of mpiexec is closed", Policy{}, []any{nobodyReads}},
	{"mpiexec cannot read its standard input", Policy{}, []any{badInput}},
	{"our stdout is full", Policy{}, []any{diskFull}},
}

// cell returns the actions that follow in one phase, and the exit code if nothing else happened.
func cell(rules Policy, before, events []any) string {
	now := time.Unix(1_000_000, 0)
	rules.Grace = 10 * time.Second
	state := NewState(twoNodes, rules, now)
	for _, event := range before {
		state.Step(event, now)
	}
	var did []string
	for _, event := range events {
		if pause, ok := event.(after); ok {
			now = now.Add(time.Duration(pause))
			continue
		}
		for _, action := range state.Step(event, now) {
			did = append(did, word(action))
		}
	}
	if len(did) == 0 {
		did = []string{"-"}
	}
	return fmt.Sprintf("%s (%d)", strings.Join(did, " "), state.ExitCode())
}

// The table in doc/supervision.md shows what Step does; -update writes it.
func TestSupervisionTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, s := range stages {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(stages)) + "|\n")
	for _, h := range occurrences {
		b.WriteString("| " + h.what + " |")
		for _, s := range stages {
			b.WriteString(" " + cell(h.rules, s.events, h.events) + " |")
		}
		b.WriteString("\n")
	}
	const file, begin, end = "../../doc/supervision.md", "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	doctable.CheckTable(t, file, begin, end, b.String(), *update, "go test ./launch/supervise -run TestSupervisionTable -update")
}
