package life

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write doc/supervision.md anew")

// after is time that passes.
type after time.Duration

// A stage is a node in one phase of its life, before an event.
type stage struct {
	name   string
	events []any // that bring it there
}

var (
	isReady   = []any{Prepare{Group: "g"}, Claimed{Group: "g", Rules: Rules{Grace: 10 * time.Second}}, Ready{"g", 2}}
	isForking = with(isReady, Start{Group: "g"}, Forked{0, 70, began})
	isRunning = with(isForking, Forked{1, 71, began}, ForkingEnded{})
	isHeld    = with(isRunning, Hold{job.HoldAsked, true})
	isEmpty   = with(isRunning, exits(70, 0), LastWords{0}, exits(71, 0), LastWords{1}, NoChildren{})
)

// stages are the columns of the table: the phases of Work, Ending and Talk that a node of two
// ranks can be in.
var stages = []stage{
	{"Idle", nil},
	{"Prepared", isReady},
	{"Forking", isForking},
	{"Running", isRunning},
	{"Held", isHeld},
	{"Lingering", with(isRunning, End{2 * time.Second, time.Second})},
	{"Asked", with(isRunning, End{0, 10 * time.Second})},
	{"Killing", with(isRunning, End{0, 0}, Tick{})},
	{"Empty", isEmpty},
	{"Drained", with(isEmpty, Silence{1})},
	{"Over", with(isRunning, Bye{})},
}

var began = time.Unix(1_000_000, 0)

func with(events []any, more ...any) []any { return slices.Concat(events, more) }

func exits(pid, code int) Reaped {
	return Reaped{PID: pid, Exit: job.Exit{Code: code}, At: began.Add(time.Hour)}
}

// happenings are the rows of the table.
var happenings = []struct {
	what   string
	events []any
}{
	{"a group is to be prepared", []any{Prepare{Group: "h"}}},
	{"its claim is made", []any{Prepare{Group: "h"}, Claimed{Group: "h"}}},
	{"its claim is refused", []any{Prepare{Group: "h"}, Claimed{Group: "h", Refused: true}}},
	{"its claim is made, and it was released meanwhile", []any{Prepare{Group: "h"}, Released{"h"}, Claimed{Group: "h"}}},
	{"the prepared group is released", []any{Released{"g"}}},
	{"it is started", []any{Start{Group: "g"}}},
	{"it is to be pruned", []any{Prune{"g"}}},
	{"rank 1 is forked", []any{Forked{1, 71, began}}},
	{"the same, and had a signal and its end before", []any{Signal{10}, exits(71, 3), Forked{1, 71, began}}},
	{"rank 1 cannot be forked, and was the last", []any{NotForked{1}, ForkingEnded{}}},
	{"rank 0 ends with 0", []any{exits(70, 0)}},
	{"rank 0 ends with 0 and has said all", []any{exits(70, 0), LastWords{0}}},
	{"both end with 3, and rank 1 has said all first", []any{exits(70, 3), exits(71, 3), LastWords{1}, LastWords{0}}},
	{"another child ends", []any{exits(99, 0)}},
	{"both ranks end, and then what they have left", []any{exits(70, 0), exits(71, 0), exits(99, 0)}},
	{"there is no child any more", []any{NoChildren{}}},
	{"both have ended, no child is left and nobody can write", []any{exits(70, 0), LastWords{0}, exits(71, 0), LastWords{1}, NoChildren{}, Silence{1}}},
	{"nobody takes the output for 1 s", []any{Slow{1}}},
	{"SIGUSR1 for the ranks", []any{Signal{10}}},
	{"a hold", []any{Hold{job.HoldAsked, true}}},
	{"the same, and rank 1 is forked", []any{Hold{job.HoldAsked, true}, Forked{1, 71, began}}},
	{"another hold, and the first is lifted", []any{Hold{job.HoldStopped, true}, Hold{job.HoldAsked, false}}},
	{"the first hold is lifted", []any{Hold{job.HoldAsked, false}}},
	{"a hold of which nobody knows", []any{Hold{"fuzz", true}}},
	{"SIGCONT for the ranks", []any{Signal{18}}},
	{"stacks are asked for, SIGQUIT comes, they are told", []any{Dump{}, Signal{3}, Dumped{}}},
	{"End, after a linger", []any{End{time.Second, time.Second}}},
	{"the same, and it passes, and its grace", []any{End{time.Second, time.Second}, after(time.Second), Tick{}, after(time.Second), Tick{}}},
	{"End at once", []any{End{0, time.Second}}},
	{"End at once, twice", []any{End{0, 10 * time.Second}, End{0, 0}}},
	{"10 s pass", []any{after(10 * time.Second), Tick{}}},
	{"another attempt follows", []any{Renew{}}},
	{"Bye", []any{Bye{}}},
	{"mpiexec is gone", []any{Lost{}}},
}

// possible leaves out events of ranks that do not exist in a stage, or are over.
func possible(s stage, events []any) bool {
	state := New()
	for _, e := range s.events {
		state.Step(e, began)
	}
	for _, event := range events {
		switch e := event.(type) {
		case Forked:
			if r := state.ranks[e.Rank]; r == nil || r.phase != planned {
				return false
			}
		case NotForked:
			if r := state.ranks[e.Rank]; r == nil || r.phase != planned {
				return false
			}
		case LastWords:
			if r := state.ranks[e.Rank]; r == nil || r.phase != ended {
				return false
			}
		case Reaped:
			if state.forking == 0 && e.PID < 80 && !state.IsRank(e.PID) {
				return false
			}
		case NoChildren:
			if state.work == Idle {
				return false
			}
		}
		state.Step(event, began)
	}
	return true
}

// cell is what one happening leads to in one stage.
func cell(before, events []any) string {
	now, state := began, New()
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
	switch {
	case state.Anew():
		did = append(did, "**anew**")
	case state.Done():
		did = append(did, "**done**")
	}
	if len(did) == 0 {
		return "-"
	}
	return strings.Join(did, " ")
}

// word is an action in the table: its name, and what it is about.
func word(action any) string {
	switch a := action.(type) {
	case Accept, Refuse, Forget, Claim, Fork, PruneGroup, AwaitSilence:
		return reflect.TypeOf(a).Name()
	case Bury:
		return "Bury"
	case Note:
		if a.Asked {
			return fmt.Sprintf("Note(%d, asked)", a.Rank)
		}
		return fmt.Sprintf("Note(%d)", a.Rank)
	case Report:
		if !a.Tell {
			return fmt.Sprintf("Report(%d, to nobody)", a.Rank)
		}
		return fmt.Sprintf("Report(%d)", a.Rank)
	case Wake:
		return fmt.Sprintf("Wake(%v)", a.After)
	case PassSignal:
		return fmt.Sprintf("PassSignal(%d)", a.Rank)
	}
	v := reflect.ValueOf(action)
	if v.NumField() == 0 {
		return v.Type().Name()
	}
	return fmt.Sprintf("%s(%v)", v.Type().Name(), v.Field(0))
}

// The table of the manual is what Step does. With -update it is written anew.
func TestLifeTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, s := range stages {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(stages)) + "|\n")
	for _, h := range happenings {
		b.WriteString("| " + h.what + " |")
		for _, s := range stages {
			if possible(s, h.events) {
				b.WriteString(" " + cell(s.events, h.events))
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	const file, begin, end = "../../doc/supervision.md", "<!-- begin of the table of a node -->\n", "<!-- end of the table of a node -->\n"
	doctable.Check(t, file, begin, end, b.String(), *update, "go test ./helper/life -update")
}

// step takes events into a state, and returns all actions.
func step(s *State, events ...any) (did []any) {
	for _, e := range events {
		did = append(did, s.Step(e, began)...)
	}
	return did
}

// Ranks that are spawned meanwhile are processes, and nobody hears that there are none.
func TestEmptinessEndsWithTheNextRanks(t *testing.T) {
	s := New()
	step(s, isEmpty...)
	if got := step(s, Slow{1}); len(got) != 1 {
		t.Fatalf("an empty node says %v", got)
	}
	step(s, Prepare{Group: "h"}, Claimed{Group: "h"}, Ready{"h", 1}, Start{Group: "h"})
	if got := step(s, Slow{1}, Silence{1}); got != nil {
		t.Errorf("with ranks that are forked: %v", got)
	}
}

// The end of a process before the start of a rank is not the rank's, though it has its number.
func TestAnOrphanWithTheNumberOfARankIsNoRank(t *testing.T) {
	s := New()
	step(s, isReady...)
	step(s, Start{Group: "g"}, Reaped{PID: 70, At: began.Add(-time.Second)})
	if got := step(s, Forked{0, 70, began}); slices.ContainsFunc(got, func(a any) bool { _, is := a.(Note); return is }) || !s.IsRank(70) {
		t.Errorf("the end of a process before the start of the rank was taken for its end: %v", got)
	}
	if got := step(s, NotForked{1}, ForkingEnded{}); len(got) == 0 || word(got[0]) != "Bury" {
		t.Errorf("the orphan is not counted: %v", got)
	}
}

// A rank may end before the starter has said that it was the last.
func TestWhatMayStayIsLeftInWhateverOrderTheNewsComes(t *testing.T) {
	for _, order := range []string{"forked reaped ended", "reaped forked ended", "forked ended reaped"} {
		s := New()
		step(s, Prepare{Group: "g"}, Claimed{Group: "g", Rules: Rules{Stay: true}}, Ready{"g", 1}, Start{Group: "g"})
		for news := range strings.FieldsSeq(order) {
			step(s, map[string]any{"forked": Forked{0, 70, began}, "reaped": exits(70, 0), "ended": ForkingEnded{}}[news])
		}
		if s.work != Empty {
			t.Errorf("%s: it waits for what may stay", order)
		}
	}
}

// A death before the job was asked to end is the rank's own, whenever it is heard of.
func TestAskedIsByTheTimeOfTheEnd(t *testing.T) {
	s := New()
	step(s, isRunning...)
	s.Step(End{0, time.Second}, began.Add(time.Second))
	for pid, asked := range map[int]bool{70: false, 71: true} {
		end := Reaped{PID: pid, At: began}
		if asked {
			end.At = began.Add(2 * time.Second)
		}
		if note := step(s, end)[0].(Note); note.Asked != asked {
			t.Errorf("%+v, want %v", note, asked)
		}
	}
}

// A job may spawn for days: nothing is kept of a group that is over.
func TestWhatIsOverIsForgotten(t *testing.T) {
	s := New()
	for i := range 10_000 {
		step(s, Prepare{Group: "g"}, Claimed{Group: "g"}, Ready{"g", 2}, Start{Group: "g"},
			Forked{2 * i, 70, began}, NotForked{2*i + 1}, ForkingEnded{}, exits(70, 3))
		if got := step(s, LastWords{2 * i}); len(got) != 2 || word(got[1]) != fmt.Sprintf("EndGroup(%d)", 2*i) {
			t.Fatalf("the end of group %d: %v", i, got)
		}
	}
	if kept := len(s.groups) + len(s.ranks) + len(s.byPID) + len(s.wanted) + len(s.early) + len(s.failing); kept > 0 {
		t.Errorf("%d things are kept: %+v", kept, s)
	}
}
