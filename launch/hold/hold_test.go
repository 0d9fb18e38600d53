package hold

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/test/doctable"
)

var update = flag.Bool("update", false, "write the table in doc/supervision.md")

// frozen stands for a reason that this package has never heard of.
const frozen job.Hold = "frozen"

var began = time.Unix(1_000_000, 0)

// A happening calls a method of a State.
type happening func(s *State, now time.Time) []Action

func add(why job.Hold) happening {
	return func(s *State, now time.Time) []Action { return s.Add(why, now) }
}

func remove(why job.Hold) happening {
	return func(s *State, now time.Time) []Action { return s.Remove(why, now) }
}

func end(s *State, now time.Time) []Action { return s.End(now) }

// word returns an action as the table has it.
func word(action Action) string {
	switch a := action.(type) {
	case TellNodes:
		if a.On {
			return fmt.Sprintf("hold(%s)", a.Why)
		}
		return fmt.Sprintf("release(%s)", a.Why)
	case Suspend:
		return "**suspend**"
	case Resume:
		return "**resume**"
	}
	return fmt.Sprintf("%T", action)
}

// The table in doc/supervision.md shows what follows from each call. With -update it is written
// again.
func TestTableOfHolds(t *testing.T) {
	columns := []struct {
		name   string
		before []happening
	}{
		{"none", nil},
		{"suspend", []happening{add(job.HoldRequested)}},
		{"stopped", []happening{add(job.HoldLauncherStopped)}},
		{"suspend, frozen", []happening{add(job.HoldRequested), add(frozen)}},
		{"none, the job ends", []happening{end}},
	}
	rows := []struct {
		what string
		call happening
	}{
		{"`--suspend`: a user adds *suspend*", add(job.HoldRequested)},
		{"`--resume-job`: a user removes it", remove(job.HoldRequested)},
		{"^Z: mpiexec is about to be stopped", add(job.HoldLauncherStopped)},
		{"SIGCONT: mpiexec goes on", remove(job.HoldLauncherStopped)},
		{"another reason is added", add(frozen)},
		{"it is removed", remove(frozen)},
		{"the job ends", end},
	}
	var b strings.Builder
	b.WriteString("| what happens |")
	for _, c := range columns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(columns)) + "|\n")
	for _, row := range rows {
		b.WriteString("| " + row.what + " |")
		for _, c := range columns {
			var s State
			for _, call := range c.before {
				call(&s, began)
			}
			var words []string
			for _, action := range row.call(&s, began) {
				words = append(words, word(action))
			}
			if words == nil {
				words = []string{"-"}
			}
			b.WriteString(" " + strings.Join(words, " ") + " |")
		}
		b.WriteString("\n")
	}
	doctable.CheckTable(t, "../../doc/supervision.md", "<!-- begin of the table of holds -->\n", "<!-- end of the table of holds -->\n",
		b.String(), *update, "go test ./launch/hold -update")
}

// In every sequence of six calls, one second apart: ranks run exactly while there is no reason,
// Suspend and Resume alternate, and the times of all Resumes add up to the time with a reason.
func TestRanksRunWhenNoReasonIsLeft(t *testing.T) {
	calls := []happening{add(job.HoldRequested), remove(job.HoldRequested), add(job.HoldLauncherStopped), remove(job.HoldLauncherStopped), add(frozen), remove(frozen), end}
	const length = 6
	sequences := 1
	for range length {
		sequences *= len(calls)
	}
	for sequence := range sequences {
		var s State
		nodes := make(map[job.Hold]bool) // the reasons as nodes know them
		suspended, told, held := false, time.Duration(0), time.Duration(0)
		for step, rest := 0, sequence; step < length; step, rest = step+1, rest/len(calls) {
			if suspended {
				held += time.Second
			}
			for _, action := range calls[rest%len(calls)](&s, began.Add(time.Duration(step)*time.Second)) {
				switch a := action.(type) {
				case TellNodes:
					if nodes[a.Why] == a.On {
						t.Fatalf("sequence %d: nodes are told %+v again", sequence, a)
					}
					if nodes[a.Why] = a.On; !a.On {
						delete(nodes, a.Why)
					}
				case Suspend:
					if suspended {
						t.Fatalf("sequence %d: suspended twice", sequence)
					}
					suspended = true
				case Resume:
					if !suspended {
						t.Fatalf("sequence %d: resumed, but not suspended", sequence)
					}
					suspended, told = false, told+a.HeldFor
				}
			}
			if suspended != (len(s.Reasons()) > 0) || len(nodes) != len(s.Reasons()) {
				t.Fatalf("sequence %d: reasons %v, suspended %v, nodes know %v", sequence, s.Reasons(), suspended, nodes)
			}
		}
		if !suspended && told != held {
			t.Fatalf("sequence %d: the ranks stood still for %v, and %v are told", sequence, held, told)
		}
	}
}

// The time in which the ranks are stopped counts once, whatever the number of reasons.
func TestStoppedTimeCountsOnce(t *testing.T) {
	var s State
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	s.Add(job.HoldRequested, at(0))
	s.Add(frozen, at(10))
	s.Remove(job.HoldRequested, at(20))
	if total, times := s.Stopped(at(25)); total != 25*time.Second || times != 1 {
		t.Errorf("while stopped: %v, %d times", total, times)
	}
	s.Remove(frozen, at(30))
	s.Add(frozen, at(40))
	s.End(at(45))
	if total, times := s.Stopped(at(60)); total != 35*time.Second || times != 2 {
		t.Errorf("at the end: %v, %d times", total, times)
	}
}

// HeldFor of a reason is the time since that reason was added, not since the first one.
func TestEachReasonHasItsOwnTime(t *testing.T) {
	var s State
	s.Add(job.HoldRequested, began)
	s.Add(frozen, began.Add(10*time.Second))
	if got, want := fmt.Sprint(s.Remove(frozen, began.Add(15*time.Second))), fmt.Sprint([]Action{TellNodes{Why: frozen, HeldFor: 5 * time.Second}}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s.End(began.Add(time.Minute))), fmt.Sprint([]Action{TellNodes{Why: job.HoldRequested, HeldFor: time.Minute}, Resume{time.Minute}}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
