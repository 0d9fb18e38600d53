package supervise

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch/preempt"
)

/*
A preemption is for whom a job stands still that gives way by being suspended, and lets others have its CPUs until they
are done with them (survive.md SV-33). Nobody tells it to go on: it looks, by what its nodes tell of claims.

	ask "yield" --> giving --> vacant --- somebody has claimed one ---> it waits until all are free again, and goes on
	                             |
	                             '------- nobody has in 30 s ---------> it goes on, and refuses who has asked for 10 min
*/
type preemption struct {
	by     Asked
	since  time.Time // the CPUs are free since then; zero: not yet
	taken  bool      // somebody has claimed one since
	looked time.Time // when it was last looked whether they are free
	next   time.Time // when to look again
}

// How often to look: as soon as a claim has come or gone, but not all the time, and now and then anyway.
const (
	lookBriefly = 50 * time.Millisecond // as long as nobody has claimed anything: he may be done soon
	lookPause   = time.Second
	lookAnyway  = 10 * time.Second
)

// giveWay does what somebody wants who is next in the queue, whoever he is (SV-33).
func (s *State) giveWay(e Asked, now time.Time) []Action {
	refuse := func(text string, later bool) []Action {
		return []Action{Reply{To: e, State: job.AskRefused, Text: text, Later: later}}
	}
	if s.rules.Yields == "" {
		return refuse("it does not give way: it was started without --preemptible", false)
	}
	if until := s.rules.Grudges.Holds(e.UID, now); !until.IsZero() {
		return refuse(fmt.Sprintf("it gave way to %s, who did not take its CPUs: not again until %s", e.User, until.Format(time.TimeOnly)), false)
	}
	if s.rules.Yields == job.YieldByRequeueing {
		return []Action{Requeue{e}}
	}
	switch s.vacancy.phase {
	case vacant:
		return []Action{Reply{To: e, State: job.AskDone, Text: "its CPUs are free for others"}}
	case taken:
	default:
		return refuse("its CPUs are just being claimed, or given up", true)
	}
	do := []Action{Reply{To: e, State: job.AskTaken, Text: "it is being suspended"}}
	if s.Held() { // by somebody who lets it go on
		return append(do, s.vacate(e, giving, job.GiveUp, s.occupied(), now)...)
	}
	s.held = now
	do = append(do, Watch{e.benefits()}, Hold{On: true}, Say{e.Told(fmt.Sprintf("preempted by %s: suspended", e.Beneficiary()))})
	do = append(do, s.vacate(e, giving, job.GiveUp, s.occupied(), now)...)
	s.vacancy.gave = &preemption{by: e}
	return do
}

// staySuspended has a job that gives way to somebody stand still until it is told to go on: it does not go on by itself.
func (s *State) staySuspended(e Asked, now time.Time) []Action {
	if phase := s.vacancy.phase; phase != giving && phase != vacant {
		return []Action{Reply{To: e, State: job.AskRefused, Text: "its CPUs are just being claimed, or given up", Later: true}}
	}
	s.vacancy.gave = nil
	return []Action{s.suspendedBy(e, now), Reply{To: e, State: job.AskDone, Text: "suspended; its CPUs are free for others"}}
}

// benefits is the job for which somebody asks another to give way: its name is his word, its user the node's.
func (e Asked) benefits() job.Whose { return job.Whose{Job: preempt.For(e.Args), UID: e.UID} }

// Beneficiary names the job for which somebody asks another to give way, by his word, and him, by that of the node.
func (e Asked) Beneficiary() string {
	if id := preempt.For(e.Args); id != "" {
		return fmt.Sprintf("job %s (%s)", id, e.User)
	}
	return "a job of " + e.User
}

// given notes that all CPUs are free.
func (p *preemption) given(now time.Time) {
	if p == nil {
		return
	}
	p.since, p.next = now, now.Add(preempt.Patience)
}

// had notes that somebody has one, or has had one.
func (p *preemption) had() {
	if p != nil {
		p.taken = true
	}
}

// claimsChanged looks at once whether the CPUs are free, if it has not done so just now.
func (s *State) claimsChanged(now time.Time) []Action {
	if p := s.vacancy.gave; p != nil && !p.since.IsZero() {
		pause := lookBriefly
		if p.taken {
			pause = lookPause
		}
		if soon := p.looked.Add(pause); soon.Before(p.next) {
			p.next = soon
		}
	}
	return s.lookAgain(now)
}

// lookAgain looks whether the CPUs are free, if it is time for that.
func (s *State) lookAgain(now time.Time) []Action {
	p := s.vacancy.gave
	if p == nil || s.vacancy.phase != vacant || now.Before(p.next) {
		return nil
	}
	p.looked, p.next = now, now.Add(lookAnyway)
	return s.vacate(Asked{}, looking, job.Look, s.occupied(), now)
}

// allFree is what a job does whose CPUs nobody has: it takes them back when somebody has had them, or nobody wanted them.
func (s *State) allFree(now time.Time) (do []Action) {
	p := s.vacancy.gave
	if over := p.since.Add(preempt.Patience); !p.taken && now.Before(over) {
		if s.vacancy.phase = vacant; over.Before(p.next) {
			p.next = over
		}
		return nil
	}
	if !p.taken {
		s.rules.Grudges.Note(p.by.UID, now)
		do = append(do, Say{fmt.Sprintf("its CPUs were not claimed for %v%s: it goes on, and does not give way to %s again until %s",
			preempt.Patience, s.vacancy.told(), p.by.User, s.rules.Grudges.Holds(p.by.UID, now).Format(time.TimeOnly))})
		p.taken = true // that is told once
	}
	return append(do, s.vacate(Asked{}, taking, job.TakeBack, s.occupied(), now)...)
}

// watches is when to look again; zero: never.
func (s *State) watches() time.Time {
	if p := s.vacancy.gave; p != nil && s.vacancy.phase == vacant {
		return p.next
	}
	return time.Time{}
}
