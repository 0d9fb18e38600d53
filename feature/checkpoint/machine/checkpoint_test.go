package machine

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write testdata/table.md")

var zero = time.Unix(1_000_000, 0)

// Policies of the tests: verified by a file, and requested by a signal alone.
var (
	verified   = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, DoneFile: "done", Grace: 30 * time.Second}
	required   = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, DoneFile: "done", Grace: 30 * time.Second, Required: true}
	unverified = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, Grace: 30 * time.Second}
)

// An at is an event at a second. play returns the actions that follow events.
type at struct {
	second int
	event  Event
}

func play(s *State, events ...at) (actions []string) {
	for _, e := range events {
		actions = append(actions, format(s.Step(e.event, zero.Add(time.Duration(e.second)*time.Second)))...)
	}
	return actions
}

// say formats actions as in the table.
func format(list []Action) (actions []string) {
	for _, action := range list {
		switch a := action.(type) {
		case RequestCheckpoint:
			actions = append(actions, "request")
		case CheckFile:
			actions = append(actions, "check")
		case ReportEvent:
			actions = append(actions, a.State)
		case ReportLine:
			actions = append(actions, "report")
		case ReplyAll:
			actions = append(actions, map[bool]string{true: "yes", false: "no"}[a.Err == ""])
		case StopJob:
			actions = append(actions, "stop")
		}
	}
	return actions
}

// phases are the columns of the table, and the events that lead to them.
var phases = []struct {
	name   string
	policy job.CheckpointPolicy
	events []at
}{
	{"idle", verified, []at{{0, JobRunning{zero.Add(time.Hour)}}}},
	{"in progress", verified, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, Tick{}}}},
	{"in progress, then a stop", verified, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}}},
	{"the same, `--ckpt-required`", required, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}}},
	{"unverified", unverified, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, Tick{}}}},
	{"stopping", verified, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}, {61, Written{}}}},
	{"over", verified, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, AttemptEnded{}}}},
}

// later returns events that many seconds later.
func later(events []at, by int) (moved []at) {
	for _, e := range events {
		moved = append(moved, at{e.second + by, e.event})
	}
	return moved
}

// testdata/table.md contains the actions that follow each event in each phase (survive.md 4). With -update, the test
// writes the table.
func TestTableOfCheckpoints(t *testing.T) {
	rows := []struct {
		name   string
		events []at
	}{
		{"`--ckpt-every` expires", []at{{60, Tick{}}}},
		{"`--ckpt-before` expires", []at{{3300, Tick{}}}},
		{"a checkpoint is requested", []at{{2, CheckpointWanted{}}}},
		{"two requests for one", []at{{2, CheckpointWanted{}}, {3, CheckpointWanted{}}}},
		{"a request to stop the job after one", []at{{2, CheckpointWanted{StopAfter: true}}}},
		{"a second passes", []at{{1, Tick{}}}},
		{"the command ends with 0, the file is there, or all ranks exited with 0 or 85", []at{{2, Written{}}}},
		{"the command fails", []at{{2, CommandFailed{"why"}}}},
		{"`--ckpt-grace` is over", []at{{30, Tick{}}}},
		{"the stop is cancelled", []at{{2, StopCancelled{}}}},
		{"the job fails, or ends otherwise", []at{{2, AttemptEnded{}}}},
	}
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, p := range phases {
		fmt.Fprintf(&b, " %s |", p.name)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(phases)) + "|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, p := range phases {
			s := New(p.policy)
			play(&s, p.events...)
			actions := strings.Join(play(&s, later(row.events, p.events[len(p.events)-1].second)...), " ")
			if actions == "" {
				actions = "-"
			}
			fmt.Fprintf(&b, " %s (%s) |", actions, []string{"idle", "in progress", "stopping", "over"}[s.Phase])
		}
		b.WriteString("\n")
	}
	doctable.CheckTable(t, "testdata/table.md", "<!-- begin of the table of checkpoints -->\n", "<!-- end of the table of checkpoints -->\n",
		b.String(), *update, "go test ./feature/checkpoint/machine -update")
}

// When checkpoints are requested, and what is reported of them (SV-13 to SV-16).
func TestCheckpoints(t *testing.T) {
	only := func(change func(*job.CheckpointPolicy)) job.CheckpointPolicy {
		p := verified
		change(&p)
		return p
	}
	for _, test := range []struct {
		name   string
		policy job.CheckpointPolicy
		events []at
		want   string
		next   int // second of the next Tick; 0: none
	}{
		{"nothing before all ranks run", verified, []at{{0, Tick{}}}, "", 0},
		{"each minute", verified, []at{{5, JobRunning{}}}, "", 65},
		{"one at a time", verified, []at{{0, JobRunning{}}, {60, Tick{}}, {60, Tick{}}}, "request asked", 61},
		{"looked at each second", verified, []at{{0, JobRunning{}}, {60, Tick{}}, {61, Tick{}}, {62, Tick{}}, {62, Written{}}}, "request asked check check done", 120},
		{"late, and the next in its time", verified, []at{{0, JobRunning{}}, {60, Tick{}}, {90, Tick{}}}, "request asked report late", 120},
		{"news of one that was given up", verified, []at{{0, JobRunning{}}, {60, Tick{}}, {90, Tick{}}, {91, Written{}}, {92, CommandFailed{"x"}}}, "request asked report late", 120},
		{"only before the end", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{zero.Add(time.Hour)}}}, "", 3300},
		{"of an end that nobody knows", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{}}}, "", 0},
		{"an end that is too near", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{zero.Add(time.Minute)}}, {0, Tick{}}}, "", 0},
		{"who asks meanwhile shares it", verified, []at{{0, JobRunning{}}, {60, Tick{}}, {61, CheckpointWanted{}}, {62, CheckpointWanted{}}, {63, Written{}}}, "request asked done yes", 120},
		{"also that it failed", verified, []at{{0, JobRunning{}}, {60, CheckpointWanted{}}, {61, CommandFailed{"x"}}}, "request asked report failed no", 60},
		{"a stop goes on with what was saved before", verified, []at{{0, JobRunning{}}, {50, CheckpointWanted{StopAfter: true}}, {80, Tick{}}}, "request asked report late no stop", 0},
		{"a signal alone is asked for, and that is all", unverified, []at{{0, JobRunning{}}, {10, CheckpointWanted{}}}, "request asked yes", 40},
		{"so a stop waits its time", unverified, []at{{0, JobRunning{}}, {10, CheckpointWanted{StopAfter: true}}, {40, Tick{}}}, "request asked yes stop", 0},
		{"no way to ask", job.CheckpointPolicy{Dir: "d"}, []at{{0, JobRunning{}}, {10, CheckpointWanted{}}}, "no", 0},
		{"the failure wins", verified, []at{{0, JobRunning{}}, {50, CheckpointWanted{StopAfter: true}}, {51, AttemptEnded{}}, {52, Written{}}, {53, CheckpointWanted{}}}, "request asked no no", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New(test.policy)
			got, next := strings.Join(play(&s, test.events...), " "), 0
			if due := s.Next(); !due.IsZero() {
				next = int(due.Sub(zero).Seconds())
			}
			if got != test.want || next != test.next {
				t.Errorf("%q, then at %d s; want %q and %d s", got, next, test.want, test.next)
			}
		})
	}
}

// No timer runs while the job is stopped. The timer of --ckpt-before follows the job's end.
func TestStoppedJob(t *testing.T) {
	s := New(verified)
	play(&s, at{0, JobRunning{zero.Add(time.Hour)}}, at{60, Tick{}})
	s.Shift(time.Hour, zero.Add(90*time.Minute))
	if got := strings.Join(play(&s, at{3659, Tick{}}), " "); got != "" {
		t.Errorf("%q before its time", got)
	}
	if got := strings.Join(play(&s, at{3661, Tick{}}, at{3690, Tick{}}), " "); got != "check report late check" && got != "check report late" {
		t.Errorf("%q behind the stop", got)
	}
	if due := s.timers.before; !due.Equal(zero.Add(85 * time.Minute)) {
		t.Errorf("it is asked %v before the end", zero.Add(90*time.Minute).Sub(due))
	}
}

// A job that was to be stopped and goes on has its timers again, and may be stopped later.
func TestCancelledStop(t *testing.T) {
	s := New(verified)
	got := play(&s, at{0, JobRunning{zero.Add(time.Hour)}}, at{10, CheckpointWanted{StopAfter: true}}, at{11, Written{}}, at{12, StopCancelled{}}, at{72, Tick{}}, at{73, Written{}},
		at{3300, Tick{}}, at{3301, Written{}}, at{3310, CheckpointWanted{StopAfter: true}}, at{3311, Written{}})
	if want := "request asked done yes stop request asked done request asked done request asked done yes stop"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

// Timers shorter than the grace of a checkpoint do not keep a job from being stopped.
func TestTimersBeforeAStop(t *testing.T) {
	often := job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, Grace: 5 * time.Minute}
	s := New(often)
	events := []at{{0, JobRunning{}}, {30, CheckpointWanted{StopAfter: true}}}
	for minute := 1; minute <= 6; minute++ {
		events = append(events, at{60 * minute, Tick{}})
	}
	if got := strings.Join(play(&s, events...), " "); got != "request asked yes stop" {
		t.Errorf("%q", got)
	}
}

// With --ckpt-required the job is stopped only after a complete checkpoint. If only the ends of its
// ranks show that, it is stopped after those.
func TestRequiredCheckpoint(t *testing.T) {
	alone := unverified
	alone.Required, alone.Every, alone.BeforeEnd = true, 0, 0
	for _, test := range []struct {
		name   string
		policy job.CheckpointPolicy
		events []at
		want   string
		phase  Phase
	}{
		{"late", required, []at{{1, CheckpointWanted{StopAfter: true}}, {31, Tick{}}, {32, CheckpointWanted{StopAfter: true}}, {33, Written{}}}, "request asked report late no request asked done yes stop", Stopping},
		{"failed", required, []at{{1, CheckpointWanted{StopAfter: true}}, {2, CommandFailed{"why"}}}, "request asked report failed no", Idle},
		{"nothing tells", alone, []at{{1, CheckpointWanted{StopAfter: true}}, {31, Tick{}}}, "request asked report late no", Idle},
		{"the ranks have left", alone, []at{{1, CheckpointWanted{StopAfter: true}}, {9, Written{}}, {9, AttemptEnded{}}}, "request asked done yes stop", Over},
		{"a timed one", alone, []at{{1, CheckpointWanted{}}, {31, Tick{}}}, "request asked yes", Idle},
	} {
		s := New(test.policy)
		got := strings.Join(play(&s, append([]at{{0, JobRunning{}}}, test.events...)...), " ")
		if got != test.want || s.Phase != test.phase {
			t.Errorf("%s: %q in phase %d, want %q in %d", test.name, got, s.Phase, test.want, test.phase)
		}
	}
}
