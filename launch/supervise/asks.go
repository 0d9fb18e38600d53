package supervise

import (
	"fmt"
	"time"

	"remshell/job"
)

// asked does what somebody wants who may (survive.md SV-26).
func (s *State) asked(e Asked, now time.Time) []Action {
	switch e.Verb {
	case job.AskStatus:
		return []Action{Inspect{For: &e.Asker}}
	case job.AskEnd:
		s.blame(s.judge(Failed{Kind: ByAsk, Text: "ended by " + e.who() + " with --end"}, now), now)
		return append([]Action{Reply{e, job.AskTaken, "the job is ended"}}, s.end(now, Ending, s.rules.Grace)...)
	}
	return []Action{Reply{e, job.AskRefused, fmt.Sprintf("this mpiexec does not know what %q is", e.Verb)}}
}

// who is the asker, and why he may if the job is not his.
func (e Asked) who() string {
	if e.Right == job.Administrator {
		return e.User + " (administrator)"
	}
	return e.User
}
