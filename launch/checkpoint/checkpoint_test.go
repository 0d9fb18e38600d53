package checkpoint

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

var zero = time.Unix(1_000_000, 0)

// policies under which the machine is looked at: judged by a file, and asked for by a signal alone.
var (
	judged   = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, DoneFile: "done", Grace: 30 * time.Second}
	required = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, DoneFile: "done", Grace: 30 * time.Second, Required: true}
	unjudged = job.CheckpointPolicy{Signal: job.SIGUSR1, Every: time.Minute, BeforeEnd: 5 * time.Minute, Grace: 30 * time.Second}
)

// play is what comes of events, each at its second.
type at struct {
	second int
	event  Event
}

func play(s *State, events ...at) (words []string) {
	for _, e := range events {
		words = append(words, say(s.Step(e.event, zero.Add(time.Duration(e.second)*time.Second)))...)
	}
	return words
}

// say writes actions as the table has them.
func say(actions []Action) (words []string) {
	for _, action := range actions {
		switch a := action.(type) {
		case RequestCheckpoint:
			words = append(words, "request")
		case CheckFile:
			words = append(words, "look")
		case ReportEvent:
			words = append(words, a.State)
		case ReportLine:
			words = append(words, "say")
		case ReplyAll:
			words = append(words, map[bool]string{true: "yes", false: "no"}[a.Err == ""])
		case StopJob:
			words = append(words, "stop")
		}
	}
	return words
}

// phases are those of the table, and what leads there.
var phases = []struct {
	name   string
	policy job.CheckpointPolicy
	events []at
}{
	{"idle", judged, []at{{0, JobRunning{zero.Add(time.Hour)}}}},
	{"asked", judged, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, Tick{}}}},
	{"asked, to stop", judged, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}}},
	{"the same, `--ckpt-required`", required, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}}},
	{"unjudged", unjudged, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, Tick{}}}},
	{"stopping", judged, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, CheckpointWanted{StopAfter: true}}, {61, Written{}}}},
	{"over", judged, []at{{0, JobRunning{zero.Add(time.Hour)}}, {60, AttemptEnded{}}}},
}

// later are events so many seconds later.
func later(events []at, by int) (moved []at) {
	for _, e := range events {
		moved = append(moved, at{e.second + by, e.event})
	}
	return moved
}

// What comes of each event in each phase (survive.md 4): doc/supervision.md has the table that this makes. With -update it is
// written anew.
func TestTableOfCheckpoints(t *testing.T) {
	rows := []struct {
		name   string
		events []at
	}{
		{"`--ckpt-every` strikes", []at{{60, Tick{}}}},
		{"`--ckpt-before` strikes", []at{{3300, Tick{}}}},
		{"somebody asks for one", []at{{2, CheckpointWanted{}}}},
		{"two ask for one", []at{{2, CheckpointWanted{}}, {3, CheckpointWanted{}}}},
		{"somebody wants to stop the job behind one", []at{{2, CheckpointWanted{StopAfter: true}}}},
		{"a second passes", []at{{1, Tick{}}}},
		{"the command ends with 0, the file is there, or all ranks left with 0 or 85", []at{{2, Written{}}}},
		{"the command fails", []at{{2, CommandFailed{"why"}}}},
		{"`--ckpt-grace` is over", []at{{30, Tick{}}}},
		{"it stays after all", []at{{2, StopCancelled{}}}},
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
			words := strings.Join(play(&s, later(row.events, p.events[len(p.events)-1].second)...), " ")
			if words == "" {
				words = "-"
			}
			fmt.Fprintf(&b, " %s (%s) |", words, []string{"idle", "asked", "stopping", "over"}[s.Phase])
		}
		b.WriteString("\n")
	}
	doctable.CheckTable(t, "../../doc/supervision.md", "<!-- begin of the table of checkpoints -->\n", "<!-- end of the table of checkpoints -->\n",
		b.String(), *update, "go test ./launch/checkpoint -run TestTableOfCheckpoints -update")
}

// When checkpoints are asked for, and what is said of them (SV-13 to SV-16).
func TestCheckpoints(t *testing.T) {
	only := func(change func(*job.CheckpointPolicy)) job.CheckpointPolicy {
		p := judged
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
		{"nothing before all ranks run", judged, []at{{0, Tick{}}}, "", 0},
		{"each minute", judged, []at{{5, JobRunning{}}}, "", 65},
		{"one at a time", judged, []at{{0, JobRunning{}}, {60, Tick{}}, {60, Tick{}}}, "request asked", 61},
		{"looked at each second", judged, []at{{0, JobRunning{}}, {60, Tick{}}, {61, Tick{}}, {62, Tick{}}, {62, Written{}}}, "request asked look look done", 120},
		{"late, and the next in its time", judged, []at{{0, JobRunning{}}, {60, Tick{}}, {90, Tick{}}}, "request asked say late", 120},
		{"news of one that was given up", judged, []at{{0, JobRunning{}}, {60, Tick{}}, {90, Tick{}}, {91, Written{}}, {92, CommandFailed{"x"}}}, "request asked say late", 120},
		{"only before the end", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{zero.Add(time.Hour)}}}, "", 3300},
		{"of an end that nobody knows", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{}}}, "", 0},
		{"an end that is too near", only(func(p *job.CheckpointPolicy) { p.Every = 0 }), []at{{0, JobRunning{zero.Add(time.Minute)}}, {0, Tick{}}}, "", 0},
		{"who asks meanwhile shares it", judged, []at{{0, JobRunning{}}, {60, Tick{}}, {61, CheckpointWanted{}}, {62, CheckpointWanted{}}, {63, Written{}}}, "request asked done yes", 120},
		{"also that it failed", judged, []at{{0, JobRunning{}}, {60, CheckpointWanted{}}, {61, CommandFailed{"x"}}}, "request asked say failed no", 60},
		{"a stop goes on with what was saved before", judged, []at{{0, JobRunning{}}, {50, CheckpointWanted{StopAfter: true}}, {80, Tick{}}}, "request asked say late no stop", 0},
		{"a signal alone is asked for, and that is all", unjudged, []at{{0, JobRunning{}}, {10, CheckpointWanted{}}}, "request asked yes", 40},
		{"so a stop waits its time", unjudged, []at{{0, JobRunning{}}, {10, CheckpointWanted{StopAfter: true}}, {40, Tick{}}}, "request asked yes stop", 0},
		{"no way to ask", job.CheckpointPolicy{Dir: "d"}, []at{{0, JobRunning{}}, {10, CheckpointWanted{}}}, "no", 0},
		{"the failure wins", judged, []at{{0, JobRunning{}}, {50, CheckpointWanted{StopAfter: true}}, {51, AttemptEnded{}}, {52, Written{}}, {53, CheckpointWanted{}}}, "request asked no no", 0},
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

// No timer runs while the job is stopped; what comes before its end goes by that.
func TestStoppedJob(t *testing.T) {
	s := New(judged)
	play(&s, at{0, JobRunning{zero.Add(time.Hour)}}, at{60, Tick{}})
	s.Shift(time.Hour, zero.Add(90*time.Minute))
	if got := strings.Join(play(&s, at{3659, Tick{}}), " "); got != "" {
		t.Errorf("%q before its time", got)
	}
	if got := strings.Join(play(&s, at{3661, Tick{}}, at{3690, Tick{}}), " "); got != "look say late look" && got != "look say late" {
		t.Errorf("%q behind the stop", got)
	}
	if due := s.timers.before; !due.Equal(zero.Add(85 * time.Minute)) {
		t.Errorf("it is asked %v before the end", zero.Add(90*time.Minute).Sub(due))
	}
}

// A job that was to be stopped and goes on has its timers again, and may be stopped later.
func TestJobThatStays(t *testing.T) {
	s := New(judged)
	got := play(&s, at{0, JobRunning{zero.Add(time.Hour)}}, at{10, CheckpointWanted{StopAfter: true}}, at{11, Written{}}, at{12, StopCancelled{}}, at{72, Tick{}}, at{73, Written{}},
		at{3300, Tick{}}, at{3301, Written{}}, at{3310, CheckpointWanted{StopAfter: true}}, at{3311, Written{}})
	if want := "request asked done yes stop request asked done request asked done request asked done yes stop"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

// Timers that strike more often than a checkpoint may take do not keep a job from being stopped.
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

// With --ckpt-required the job is stopped behind a checkpoint that is complete, and no other: where nothing but the ends of its
// ranks tells of one, behind those.
func TestRequiredCheckpoint(t *testing.T) {
	alone := unjudged
	alone.Required, alone.Every, alone.BeforeEnd = true, 0, 0
	for _, test := range []struct {
		name   string
		policy job.CheckpointPolicy
		events []at
		want   string
		phase  Phase
	}{
		{"late", required, []at{{1, CheckpointWanted{StopAfter: true}}, {31, Tick{}}, {32, CheckpointWanted{StopAfter: true}}, {33, Written{}}}, "request asked say late no request asked done yes stop", Stopping},
		{"failed", required, []at{{1, CheckpointWanted{StopAfter: true}}, {2, CommandFailed{"why"}}}, "request asked say failed no", Idle},
		{"nothing tells", alone, []at{{1, CheckpointWanted{StopAfter: true}}, {31, Tick{}}}, "request asked say late no", Idle},
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
