package supervise

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limit"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

// A stage is a job in one phase, before an event.
type stage struct {
	name   string
	events []any // that bring it there
}

var stages = []stage{
	{"Running", nil},
	{"Interrupted", []any{sig(job.SIGINT)}},
	{"Ending", []any{exits(1, 7)}},
	{"Killing", []any{sig(job.SIGTERM), sig(job.SIGTERM)}},
	{"Leaving", well},
}

// happenings are the rows of the table: what may happen, and whose news it is.
var happenings = []struct {
	what   string
	rules  Rules
	events []any
}{
	{"a rank ends with 0", Rules{}, []any{exits(2, 0)}},
	{"a rank ends with 3", Rules{}, []any{exits(2, 3)}},
	{"the same with `-K0`", Rules{Ends: job.Ends{KeepOnExit: true}}, []any{exits(2, 3)}},
	{"a rank dies by signal 11", Rules{}, []any{dies(2, 11)}},
	{"a rank ends or dies in any way, with `-disable-auto-cleanup`", Rules{Ends: job.Ends{KeepAll: true}}, []any{dies(2, 11), hangsUp(2), stuck, after(5 * time.Second), Tick{}}},
	{"all ranks end with 0", Rules{}, well},
	{"a program cannot be executed", Rules{}, []any{NotStarted{2, 126, "program x: permission denied", ""}}},
	{"a rank calls MPI_Abort(5)", Rules{}, []any{aborts(2, 5, "")}},
	{"a rank calls MPI_Abort(0)", Rules{}, []any{aborts(2, 0, "")}},
	{"a rank talks junk on PMI", Rules{}, []any{Failed{Kind: PMIJunk, Rank: 2, Text: "pmi: junk"}}},
	{"a rank loses its PMI connection, 1 s passes", Rules{}, []any{hangsUp(2), after(time.Second), Tick{}}},
	{"a barrier can never complete, 1 s passes", Rules{}, []any{stuck, after(time.Second), Tick{}}},
	{"a rank leaves without finalize, 5 s pass", Rules{}, []any{leaves(2), after(5 * time.Second), Tick{}}},
	{"a node is lost", Rules{}, []any{NodeLost{1, "reset"}}},
	{"all nodes are lost", Rules{}, []any{NodeLost{0, "reset"}, NodeLost{1, "reset"}}},
	{"the last node has nothing left", Rules{}, sequence(well, drained)},
	{"a node cannot get rid of processes for 20 s", Rules{}, []any{after(20*time.Second + linger + lingerGrace), Tick{}}},
	{"`-timeout` strikes", Rules{Timeout: time.Hour}, []any{after(time.Hour), Tick{}}},
	{"the same with `--on-timeout stacks`", Rules{Timeout: time.Hour, Ends: job.Ends{Stacks: true}}, []any{after(time.Hour), Tick{}}},
	{"the job has more than `--limit` allows", Rules{Limits: limit.Bounds{limit.Mem: 100}}, []any{Sampled{Node: 1, Sample: job.Sample{Mem: 101}}}},
	{"`--limit walltime` is over", Rules{Limits: limit.Bounds{limit.WallTime: int64(time.Hour)}}, []any{after(time.Hour + 1), Tick{}}},
	{"`--start-timeout` strikes", Rules{StartBy: time.Unix(1_000_060, 0)}, []any{after(time.Minute), Tick{}}},
	{"^C", Rules{}, []any{sig(job.SIGINT)}},
	{"^C, again", Rules{}, []any{sig(job.SIGINT), sig(job.SIGINT)}},
	{"^C, for the third time", Rules{}, []any{sig(job.SIGINT), sig(job.SIGINT), sig(job.SIGINT)}},
	{"SIGTERM", Rules{}, []any{sig(job.SIGTERM)}},
	{"SIGTERM, again", Rules{}, []any{sig(job.SIGTERM), sig(job.SIGTERM)}},
	{"SIGHUP", Rules{}, []any{sig(job.SIGHUP)}},
	{"^Z", Rules{}, []any{sig(job.SIGTSTP)}},
	{"SIGUSR1", Rules{}, []any{sig(job.SIGUSR1)}},
	{"nobody reads our stdout", Rules{}, []any{nobodyReads}},
	{"our stdin cannot be read", Rules{}, []any{badInput}},
	{"our stdout is full", Rules{}, []any{diskFull}},
}

// cell is what one happening leads to in one phase: the actions, and the exit code if it
// would be all.
func cell(rules Rules, before, events []any) string {
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

// The table of the manual is what Step does. With -update it is written anew.
func TestSupervisionTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, s := range stages {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(stages)) + "|\n")
	for _, h := range happenings {
		b.WriteString("| " + h.what + " |")
		for _, s := range stages {
			b.WriteString(" " + cell(h.rules, s.events, h.events) + " |")
		}
		b.WriteString("\n")
	}
	const file, begin, end = "../../doc/supervision.md", "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	doctable.Check(t, file, begin, end, b.String(), *update, "go test ./launch/supervise -run TestSupervisionTable -update")
}
