package supervise

import (
	"time"

	"remshell/job"
)

/*
A respite is the time for which a suspended job goes on to write a checkpoint (survive.md SV-16): its holds are lifted until
that is over, which is --ckpt-grace at most, and then it stands still again as before.

	held -------------------------- ask, move ------------------------> respite --- the checkpoint is over ---> held
	held, CPUs free --- ask ---> looking ---> taking --- it has all ---'    |                                   CPUs are given up again
	                      '------------'--> refused, to vacant              '--- --resume-job ---> it runs

The times of the job run meanwhile, as it does.
*/
type respite struct {
	free  bool  // its CPUs are for others behind it
	asker Asked // who wants them; void: nobody does any more
}

// Respite reports whether a suspended job goes on for a checkpoint, and for that alone.
func (s *State) Respite() bool { return s.respite != nil }

// Stands is who has suspended the job, and how, that has ended to begin elsewhere or later: there it stands still as well.
// Void: nobody has.
func (s *State) Stands() Asked {
	if s.Resettles() {
		return s.by
	}
	return Asked{}
}

// save has a checkpoint asked for, also of a job that stands still.
func (s *State) save(e Asked, now time.Time) []Action {
	switch {
	case !s.Held() || s.rules.Unsaved:
		return []Action{Checkpoint{e}}
	case s.vacancy.phase == taken:
		return append(s.relieve(false, now), Checkpoint{e})
	case s.vacancy.phase == vacant:
		do := []Action{Reply{To: e, State: job.AskTaken, Text: "its CPUs are claimed for a checkpoint"}}
		return append(do, s.vacate(e, looking, job.Look, s.occupied(), now)...)
	}
	return []Action{Reply{To: e, State: job.AskRefused, Text: "its CPUs are just being claimed, or given up, for somebody else who has asked", Later: true}}
}

// relieve lets a suspended job go on for a checkpoint. With free it has had to claim its CPUs for that.
func (s *State) relieve(free bool, now time.Time) []Action {
	if !s.Held() {
		return nil
	}
	s.respite = &respite{free: free}
	return append(s.lift(now), Say{"goes on for a checkpoint, and stands still again then"})
}

// standAgain is the end of a respite.
func (s *State) standAgain(now time.Time) []Action {
	r := s.respite
	if s.respite = nil; r == nil || s.Phase != Running {
		return nil
	}
	s.held = now
	do := []Action{Hold{On: true}, Say{"stands still again behind its checkpoint"}}
	if r.free {
		do = append(do, s.vacate(r.asker, giving, job.GiveUp, s.occupied(), now)...)
	}
	return do
}

// inRespite does what somebody wants of a job that goes on for a checkpoint alone, so far as that makes a difference.
func (s *State) inRespite(e Asked) []Action {
	r := s.respite
	switch {
	case e.Verb == job.AskResume:
		return s.stayRunning(e)
	case e.Verb == job.AskYield && r.asker.Verb != "":
		return []Action{Reply{To: e, State: job.AskRefused, Text: "its CPUs are just being given up for somebody else who has asked", Later: true}}
	case e.Verb == job.AskSuspend, e.Verb == job.AskSuspendFree && r.free:
		return []Action{Reply{To: e, State: job.AskRefused, Text: "already suspended: it goes on for a checkpoint alone"}}
	}
	r.free, r.asker = true, e
	return []Action{Reply{To: e, State: job.AskTaken, Text: "a checkpoint is being written; suspended again then"}}
}

// stayRunning has the job go on for good.
func (s *State) stayRunning(e Asked) []Action {
	r := s.respite
	s.respite, s.by, s.vacancy.gave = nil, Asked{}, nil
	do := []Action{Say{"goes on"}, Reply{To: e, State: job.AskDone, Text: "goes on"}}
	if r.asker.Verb != "" {
		do = append(do, Reply{To: r.asker, State: job.AskRefused, Text: "it goes on: somebody wants it to", Later: true})
	}
	return do
}

// endRespite forgets it, as the job is being ended: who waits for its CPUs hears of that.
func (s *State) endRespite() (do []Action) {
	if s.respite.asker.Verb != "" {
		do = append(do, Reply{To: s.respite.asker, State: job.AskRefused, Text: "the job ends"})
	}
	s.respite = nil
	return do
}

// suspendAnew has an attempt stand still from its start on, as the one before did that was to begin elsewhere or later.
func (s *State) suspendAnew(e Asked, now time.Time) []Action {
	s.held, s.by = now, e
	do := []Action{Hold{On: true}, s.suspendedBy(e, now)}
	if e.Verb == job.AskSuspendFree {
		do = append(do, s.vacate(Asked{}, giving, job.GiveUp, s.occupied(), now)...)
	}
	return do
}
