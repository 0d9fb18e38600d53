package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// asked does what somebody wants who may (survive.md SV-26).
func (s *State) asked(e Asked, now time.Time) []Action {
	switch e.Verb {
	case job.AskStatus:
		return []Action{Inspect{For: &e.Asker}}
	case job.AskEnd:
		s.blame(s.judge(Failed{Kind: ByAsk, Text: e.Told("ended by " + e.Who() + " with --end")}, now), now)
		return append([]Action{Reply{To: e, State: job.AskTaken, Text: "the job is ended"}}, s.end(now, Ending, s.rules.Grace)...)
	}
	if s.Phase != Running {
		return []Action{Reply{To: e, State: job.AskRefused, Text: "the job ends"}}
	}
	switch e.Verb {
	case job.AskSuspend:
		return s.suspend(e, now)
	case job.AskResume:
		return s.resume(e, now)
	case job.AskCheckpoint, job.AskMigrate:
		if s.Held() {
			return []Action{Reply{To: e, State: job.AskRefused, Text: job.SuspendedText + "its ranks cannot write a checkpoint"}}
		}
		if e.Verb == job.AskMigrate {
			return []Action{Move{e}}
		}
		return []Action{Checkpoint{e}}
	}
	return []Action{Reply{To: e, State: job.AskRefused, Text: fmt.Sprintf("this mpiexec does not know what %q is", e.Verb)}}
}

// moved ends the attempt, for the next one to begin elsewhere (survive.md SV-17). Where all ranks have left by themselves,
// it is moved if one of them wants to be started again; else it is over.
func (s *State) moved(e Moved, now time.Time) []Action {
	c := s.judge(Failed{Kind: ByMove, Text: e.By.Told(fmt.Sprintf("moved to %s by %s with --migrate", e.To, e.By.Who()))}, now)
	if s.Phase == Leaving && s.Cause != nil && s.Saved() {
		s.Cause = &c
		return s.settle(now)
	}
	if s.Phase != Running {
		return s.settle(now)
	}
	s.Cause = nil // a rank that failed was let be, and begins anew with the others
	s.blame(c, now)
	return s.end(now, Ending, s.rules.Grace)
}

// IsMoved reports whether the attempt ends to be moved, and not since it has failed.
func (s *State) IsMoved() bool { return s.Cause != nil && s.Cause.Kind == ByMove }

// Who is the asker, and why he may if the job is not his.
func (e Asked) Who() string {
	if e.Right == job.Administrator {
		return e.User + " (administrator)"
	}
	return e.User
}

// Told is what users read of an ask: what only another host knows, that host says.
func (e Asked) Told(text string) string {
	if e.Says == "" {
		return text
	}
	return e.Says + " says: " + text
}

// Paces bound how often each node brings asks that change something: a host may say whatever it likes of who asks. A value is
// when all askBurst of them may come at once again.
type Paces map[pace]time.Time

type pace struct {
	node   string
	status bool // that of questions, which change nothing
}

// askBurst asks may come by a node at once, and another one each askPause, or statusPause for questions.
const (
	askBurst    = 8
	askPause    = 10 * time.Second
	statusPause = time.Second
)

// TooSoon counts what is asked by another host, and says why it is refused; empty: it is not. A host may end the job in any case.
func (s *State) TooSoon(e Asked, now time.Time) string {
	if e.Says == "" || e.Verb == job.AskEnd {
		return ""
	}
	p, pause := pace{e.Says, e.Verb == job.AskStatus}, askPause
	if p.status {
		pause = statusPause
	}
	full := s.rules.Paces[p]
	if full.Before(now) {
		full = now
	}
	full = full.Add(pause)
	if wait := full.Sub(now) - askBurst*pause; wait > 0 {
		return fmt.Sprintf("too many requests have come by %s; ask again in %s", e.Says, text.Span((wait + time.Second - 1).Truncate(time.Second)))
	}
	s.rules.Paces[p] = full
	return ""
}
