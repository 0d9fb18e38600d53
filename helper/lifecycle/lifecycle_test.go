package lifecycle

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

var update = flag.Bool("update", false, "write testdata/table.md")

// elapsed is an event that only lets time pass.
type elapsed time.Duration

// A tableColumn is a node in one phase, before an event.
type tableColumn struct {
	name   string
	events []any // that lead to the phase
}

var (
	isReady   = []any{Prepare{Group: "g"}, Claimed{Group: "g", Rules: Rules{Grace: 10 * time.Second}}, Ready{"g", 2}}
	isForking = with(isReady, Start{Group: "g"}, Forked{0, 70, began})
	isRunning = with(isForking, Forked{1, 71, began}, ForkingEnded{})
	isHeld    = with(isRunning, Hold{job.HoldRequested, true})
	isEmpty   = with(isRunning, exits(70, 0), OutputSent{0}, exits(71, 0), OutputSent{1}, NoChildren{})
)

// tableColumns are the columns of the table: the phases that a node with two ranks can be in.
var tableColumns = []tableColumn{
	{"Idle", nil},
	{"Prepared", isReady},
	{"Forking", isForking},
	{"Running", isRunning},
	{"Held", isHeld},
	{"Lingering", with(isRunning, End{2 * time.Second, time.Second})},
	{"Terminating", with(isRunning, End{0, 10 * time.Second})},
	{"Killing", with(isRunning, End{0, 0}, TimerFired{})},
	{"Empty", isEmpty},
	{"Drained", with(isEmpty, PipesClosed{1})},
	{"Disconnected", with(isRunning, Bye{})},
}

var began = time.Unix(1_000_000, 0)

func with(events []any, more ...any) []any { return slices.Concat(events, more) }

func exits(pid, code int) ChildEnded {
	return ChildEnded{PID: pid, Exit: job.Exit{Code: code}, At: began.Add(time.Hour)}
}

// tableRows are the rows of the table.
var tableRows = []struct {
	what   string
	events []any
}{
	{"a group is to be prepared", []any{Prepare{Group: "h"}}},
	{"its claim succeeds", []any{Prepare{Group: "h"}, Claimed{Group: "h"}}},
	{"its claim is refused", []any{Prepare{Group: "h"}, Claimed{Group: "h", Refused: true}}},
	{"its claim succeeds, but it was released meanwhile", []any{Prepare{Group: "h"}, Released{"h"}, Claimed{Group: "h"}}},
	{"the prepared group is released", []any{Released{"g"}}},
	{"it is started", []any{Start{Group: "g"}}},
	{"its ranks are to be killed", []any{KillGroup{"g"}}},
	{"rank 1 is forked", []any{Forked{1, 71, began}}},
	{"the same, after a signal and its end have arrived", []any{Signal{10}, exits(71, 3), Forked{1, 71, began}}},
	{"rank 1, the last one, cannot be forked", []any{NotForked{1}, ForkingEnded{}}},
	{"rank 0 ends with 0", []any{exits(70, 0)}},
	{"rank 0 ends with 0 and its output is sent", []any{exits(70, 0), OutputSent{0}}},
	{"both end with 3; the output of rank 1 is sent first", []any{exits(70, 3), exits(71, 3), OutputSent{1}, OutputSent{0}}},
	{"another child ends", []any{exits(99, 0)}},
	{"both ranks end, then a child that they left", []any{exits(70, 0), exits(71, 0), exits(99, 0)}},
	{"no child is left", []any{NoChildren{}}},
	{"both ranks have ended, no child is left, all pipes are closed", []any{exits(70, 0), OutputSent{0}, exits(71, 0), OutputSent{1}, NoChildren{}, PipesClosed{1}}},
	{"output waits for its reader for 1 s", []any{PipesSlow{1}}},
	{"SIGUSR1 for the ranks", []any{Signal{10}}},
	{"a hold", []any{Hold{job.HoldRequested, true}}},
	{"the same, and rank 1 is forked", []any{Hold{job.HoldRequested, true}, Forked{1, 71, began}}},
	{"another hold, and the first is lifted", []any{Hold{job.HoldLauncherStopped, true}, Hold{job.HoldRequested, false}}},
	{"the first hold is lifted", []any{Hold{job.HoldRequested, false}}},
	{"an unknown hold", []any{Hold{"fuzz", true}}},
	{"SIGCONT for the ranks", []any{Signal{18}}},
	{"stacks are requested, SIGQUIT arrives, the stacks are sent", []any{RequestStacks{}, Signal{3}, StacksReported{}}},
	{"End with a linger", []any{End{time.Second, time.Second}}},
	{"the same, and the linger and the grace pass", []any{End{time.Second, time.Second}, elapsed(time.Second), TimerFired{}, elapsed(time.Second), TimerFired{}}},
	{"End at once", []any{End{0, time.Second}}},
	{"End at once, twice", []any{End{0, 10 * time.Second}, End{0, 0}}},
	{"10 s pass", []any{elapsed(10 * time.Second), TimerFired{}}},
	{"another attempt follows", []any{EndAttempt{}}},
	{"Bye", []any{Bye{}}},
	{"mpiexec is gone", []any{MpiexecLost{}}},
}

// isPossible reports whether the events can happen in a phase: their ranks must exist there and not be over.
func isPossible(s tableColumn, events []any) bool {
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
		case OutputSent:
			if r := state.ranks[e.Rank]; r == nil || r.phase != ended {
				return false
			}
		case ChildEnded:
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

// tableCell returns the actions for the events of a row in the phase of a column.
func tableCell(before, events []any) string {
	now, state := began, New()
	for _, event := range before {
		state.Step(event, now)
	}
	var did []string
	for _, event := range events {
		if pause, ok := event.(elapsed); ok {
			now = now.Add(time.Duration(pause))
			continue
		}
		for _, action := range state.Step(event, now) {
			did = append(did, actionText(action))
		}
	}
	switch {
	case state.HasNextAttempt():
		did = append(did, "**next attempt**")
	case state.Done():
		did = append(did, "**done**")
	}
	if len(did) == 0 {
		return "-"
	}
	return strings.Join(did, " ")
}

// actionText returns an action as the table shows it: its name and its main field.
func actionText(action any) string {
	switch a := action.(type) {
	case PrepareGroup, ReportRefused, ForgetGroup, Claim, Fork, CancelGroup, AwaitPipesClosed:
		return reflect.TypeOf(a).Name()
	case CountOrphan:
		return "CountOrphan"
	case NoteExit:
		if a.WasTerminated {
			return fmt.Sprintf("NoteExit(%d, terminated)", a.Rank)
		}
		return fmt.Sprintf("NoteExit(%d)", a.Rank)
	case ReportExit:
		if !a.ToMpiexec {
			return fmt.Sprintf("ReportExit(%d, to nobody)", a.Rank)
		}
		return fmt.Sprintf("ReportExit(%d)", a.Rank)
	case SetTimer:
		return fmt.Sprintf("SetTimer(%v)", a.After)
	case PassSignal:
		return fmt.Sprintf("PassSignal(%d)", a.Rank)
	}
	v := reflect.ValueOf(action)
	if v.NumField() == 0 {
		return v.Type().Name()
	}
	return fmt.Sprintf("%s(%v)", v.Type().Name(), v.Field(0))
}

// The table in testdata/table.md shows what Step does. With -update, the test writes the table.
func TestLifecycleTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, s := range tableColumns {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(tableColumns)) + "|\n")
	for _, h := range tableRows {
		b.WriteString("| " + h.what + " |")
		for _, s := range tableColumns {
			if isPossible(s, h.events) {
				b.WriteString(" " + tableCell(s.events, h.events))
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	const file, begin, end = "testdata/table.md", "<!-- begin of the table of a node -->\n", "<!-- end of the table of a node -->\n"
	doctable.CheckTable(t, file, begin, end, b.String(), *update, "go test ./helper/lifecycle -update")
}

// step applies events to a state, and returns all actions.
func step(s *State, events ...any) (did []any) {
	for _, e := range events {
		did = append(did, s.Step(e, began)...)
	}
	return did
}

// When a spawn starts ranks, the node is not empty any more, and PipesSlow of the earlier round is ignored.
func TestNewRanksEndTheEmptyPhase(t *testing.T) {
	s := New()
	step(s, isEmpty...)
	if got := step(s, PipesSlow{1}); len(got) != 1 {
		t.Fatalf("an empty node returns %v", got)
	}
	step(s, Prepare{Group: "h"}, Claimed{Group: "h"}, Ready{"h", 1}, Start{Group: "h"})
	if got := step(s, PipesSlow{1}, PipesClosed{1}); got != nil {
		t.Errorf("with ranks that are forked: %v", got)
	}
}

// A process that ended before a rank was forked is an orphan, also if it had the same PID.
func TestAnOrphanWithTheNumberOfARankIsNoRank(t *testing.T) {
	s := New()
	step(s, isReady...)
	step(s, Start{Group: "g"}, ChildEnded{PID: 70, At: began.Add(-time.Second)})
	if got := step(s, Forked{0, 70, began}); slices.ContainsFunc(got, func(a any) bool { _, is := a.(NoteExit); return is }) || !s.IsRank(70) {
		t.Errorf("the end of a process before the start of the rank was taken for its end: %v", got)
	}
	if got := step(s, NotForked{1}, ForkingEnded{}); len(got) == 0 || actionText(got[0]) != "CountOrphan" {
		t.Errorf("the orphan is not counted: %v", got)
	}
}

// A rank may end before ForkingEnded arrives. Processes that may stay are not waited for in any order of events.
func TestProcessesThatMayStayAreNotWaitedFor(t *testing.T) {
	for _, order := range []string{"forked reaped ended", "reaped forked ended", "forked ended reaped"} {
		s := New()
		step(s, Prepare{Group: "g"}, Claimed{Group: "g", Rules: Rules{LeaveProcesses: true}}, Ready{"g", 1}, Start{Group: "g"})
		for event := range strings.FieldsSeq(order) {
			step(s, map[string]any{"forked": Forked{0, 70, began}, "reaped": exits(70, 0), "ended": ForkingEnded{}}[event])
		}
		if s.work != NoProcesses {
			t.Errorf("%s: it waits for processes that may stay", order)
		}
	}
}

// A rank that ended before SIGTERM was sent ended by itself, even if the event arrives later.
func TestWasTerminatedGoesByTheTimeOfTheEnd(t *testing.T) {
	s := New()
	step(s, isRunning...)
	s.Step(End{0, time.Second}, began.Add(time.Second))
	for pid, terminated := range map[int]bool{70: false, 71: true} {
		end := ChildEnded{PID: pid, At: began}
		if terminated {
			end.At = began.Add(2 * time.Second)
		}
		if note := step(s, end)[0].(NoteExit); note.WasTerminated != terminated {
			t.Errorf("%+v, want %v", note, terminated)
		}
	}
}

// A job may spawn for days: nothing is kept of a group that is over.
func TestEndedGroupsAreDropped(t *testing.T) {
	s := New()
	for i := range 10_000 {
		step(s, Prepare{Group: "g"}, Claimed{Group: "g"}, Ready{"g", 2}, Start{Group: "g"},
			Forked{2 * i, 70, began}, NotForked{2*i + 1}, ForkingEnded{}, exits(70, 3))
		if got := step(s, OutputSent{2 * i}); len(got) != 2 || actionText(got[1]) != fmt.Sprintf("EndGroup(%d)", 2*i) {
			t.Fatalf("the end of group %d: %v", i, got)
		}
	}
	if kept := len(s.groups) + len(s.ranks) + len(s.byPID) + len(s.preparing) + len(s.earlyEnds) + len(s.failedOrder); kept > 0 {
		t.Errorf("%d things are kept: %+v", kept, s)
	}
}
