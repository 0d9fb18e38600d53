package supervise

import (
	"testing"
	"time"

	"remshell/job"
)

// No deadline passes while the ranks stand still. The time left before is left when they run again.
func TestTimeStandsStillWhileSuspended(t *testing.T) {
	s := play(Policy{Grace: time.Minute, Timeout: time.Hour}, nil)
	began := s.Began()
	due := s.Next()
	s.Suspend(began.Add(10 * time.Minute))
	if next := s.Next(); !next.IsZero() {
		t.Errorf("due at %v", next)
	}
	if do := s.Step(Tick{}, began.Add(9*time.Hour)); len(do) > 0 || s.Phase != Running {
		t.Errorf("%v", do)
	}
	if do := s.Step(Signaled{job.SIGCONT}, began.Add(9*time.Hour)); len(do) > 0 {
		t.Errorf("a SIGCONT lets it go on: %v", do)
	}
	s.Resume(began.Add(10*time.Hour + 10*time.Minute))
	if got, want := s.Next(), due.Add(10*time.Hour); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
	if got, want := s.End(), due.Add(10*time.Hour); !got.Equal(want) {
		t.Errorf("it has to end at %v, want %v", got, want)
	}
	s.Suspend(began.Add(10*time.Hour + 20*time.Minute))
	s.Resume(began.Add(20*time.Hour + 20*time.Minute))
	if got, want := s.Next(), due.Add(20*time.Hour); !got.Equal(want) {
		t.Errorf("after a second time: due at %v, want %v", got, want)
	}
}

// A job that ends while its ranks stand still has the whole grace period, however long they stood.
func TestTheGraceOfASuspendedJobBeginsWhenItEnds(t *testing.T) {
	s := play(Policy{}, nil)
	s.Suspend(s.Began().Add(time.Minute))
	ends := s.Began().Add(time.Hour)
	s.Step(sig(job.SIGTERM), ends)
	s.Resume(ends)
	if got, want := s.Next(), ends.Add(10*time.Second+killPatience); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
}

// A node that is lost while the ranks stand still is lost when it is, by the clock on the wall.
func TestTheTimeOfALossIncludesASuspension(t *testing.T) {
	s := play(Policy{}, nil)
	s.Suspend(s.Began().Add(time.Minute))
	s.Step(NodeLost{1, "reset"}, s.Began().Add(time.Hour))
	if want := "lost contact with b (reset) after 01:00:00, where ranks 2-3 ran"; s.Cause == nil || s.Cause.Text != want {
		t.Errorf("%+v, want %s", s.Cause, want)
	}
}

// The batch system's end does not move while a job stands still, and neither does the warning before it.
func TestAWarningFollowsTheEarlierEnd(t *testing.T) {
	s := play(Policy{Timeout: time.Hour, Warn: warning, BatchJob: ending(2 * time.Hour)}, nil)
	began := s.Began()
	if got, want := s.Next(), began.Add(time.Hour-warning.Before); !got.Equal(want) {
		t.Errorf("warns at %v, want %v", got, want)
	}
	s.Suspend(began)
	s.Resume(began.Add(30 * time.Minute))
	if got, want := s.Next(), began.Add(90*time.Minute-warning.Before); !got.Equal(want) {
		t.Errorf("after half an hour: warns at %v, want %v", got, want)
	}
	s.Suspend(began.Add(30 * time.Minute))
	s.Resume(began.Add(100 * time.Minute))
	if got, want := s.Next(), began.Add(2*time.Hour-warning.Before); !got.Equal(want) {
		t.Errorf("after the end of -timeout has passed that of the batch system: warns at %v, want %v", got, want)
	}
}

// A crash that is reported a second after an exit is the cause, even if mpiexec was stopped in
// between. At first the abort that followed the crash was the cause.
func TestACauseIsFoundAcrossAStop(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	state := NewState(twoNodes, Policy{Grace: 10 * time.Second}, now)
	state.Step(aborts(2, 5, ""), now)
	state.Suspend(now)
	state.Resume(now.Add(time.Hour))
	state.Step(dies(0, 11), now.Add(time.Hour+100*time.Millisecond))
	if state.ExitCode() != 139 {
		t.Errorf("exit code %d, cause %+v", state.ExitCode(), state.Cause)
	}
	if actions := state.Step(sig(job.SIGTERM), now.Add(time.Hour)); len(actions) > 0 {
		t.Errorf("ranks are asked to end once more: %+v", actions)
	}
}
