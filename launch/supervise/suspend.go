package supervise

import (
	"fmt"
	"time"

	"remshell/job"
)

// This file suspends a job and lets it go on (survive.md SV-28): its ranks stop, and its claims stay.

// Held reports whether the ranks stand still, because somebody wants them to.
func (s *State) Held() bool { return !s.held.IsZero() }

// suspend has all ranks stand still.
func (s *State) suspend(e Asked, now time.Time) []Action {
	if s.Held() {
		return []Action{Reply{To: e, State: job.AskRefused, Text: "already suspended"}}
	}
	s.held = now
	told := fmt.Sprintf("suspended by %s (--suspend) after %s; to go on: mpiexec --resume-job %s %s", e.Who(), job.Clock(now.Sub(s.began)), s.id, s.nodes[e.Node].name)
	return []Action{Hold{On: true}, Say{e.Told(told)}, Reply{To: e, State: job.AskDone, Text: "suspended"}}
}

// resume lets the ranks go on.
func (s *State) resume(e Asked, now time.Time) []Action {
	if !s.Held() {
		return []Action{Reply{To: e, State: job.AskRefused, Text: "not suspended"}}
	}
	stood := now.Sub(s.held)
	return append(s.lift(now), Say{"goes on after " + job.Clock(stood)}, Reply{To: e, State: job.AskDone, Text: "goes on"})
}

// lift lets the ranks go on. What time there is for anything has stood still with them; but that of an
// ending has only begun.
func (s *State) lift(now time.Time) []Action {
	stood := now.Sub(s.held)
	s.held = time.Time{}
	if s.Phase <= Interrupted {
		s.Shift(stood)
	}
	return []Action{Hold{Stood: stood}}
}
