//go:build linux

package helper

import (
	"time"

	"golang.org/x/sys/unix"

	"remshell/proc"
	"remshell/wire"
)

// An ending is how a node gets rid of what is left of a job:
//
//	lingering --(linger)--> asked: SIGTERM --(grace)--> killing: SIGKILL, again and again
//
// It is over when the reaper finds no child. Killing is repeated, since a process
// may fork between the look and the kill.
type ending struct {
	phase    phase
	deadline time.Time // of the phase
	grace    time.Duration
	asked    time.Time // when SIGTERM was sent; zero: not yet
	timer    *time.Timer
}

type phase int

const (
	lingering phase = iota
	asked
	killing
)

const (
	killAgain = 20 * time.Millisecond

	// killSlowly is how often after the first second: what lives on then sleeps in
	// the kernel, and looking costs.
	killSlowly = 500 * time.Millisecond

	// slowReader is after how long mpiexec hears that only its reader is waited for.
	slowReader = time.Second
)

// end begins to end what is left, or hurries an ending under way: deadlines only
// ever move forward.
func (s *session) end(linger, grace time.Duration) {
	if linger == 0 {
		if !s.stopForking.Swap(true) {
			close(s.hurry)
		}
		for _, g := range s.groups {
			g.pmi.Freeze() // nobody may be led to a happy end any more (pmi-wire.md 6.3)
		}
	}
	if s.childless && s.forking == 0 {
		s.checkDrained()
		return
	}
	now := time.Now()
	if s.ending == nil {
		s.ending = &ending{deadline: now.Add(linger), grace: grace}
		s.ending.timer = time.AfterFunc(linger, func() { s.tell(tickEvent{}) })
		if linger == 0 {
			s.ending.tick(s)
		}
		return
	}
	e := s.ending
	e.grace = min(e.grace, grace)
	next := now.Add(linger)
	if e.phase == asked {
		next = now.Add(grace)
	}
	if e.phase != killing && next.Before(e.deadline) {
		e.deadline = next
		e.timer.Reset(max(0, next.Sub(now)))
	}
}

// hadAsked reports whether the ranks had been told to end at a time.
func (e *ending) hadAsked(at time.Time) bool {
	return e != nil && e.phase != lingering && !at.Before(e.asked)
}

// tick takes the next step when its time has come.
func (e *ending) tick(s *session) {
	now := time.Now()
	if now.Before(e.deadline) || s.childless && s.forking == 0 {
		return
	}
	switch e.phase {
	case lingering:
		e.phase, e.asked = asked, now
		s.owners.adopt(s.byPID)
		for _, r := range s.ranks {
			r.dying = r.alive() && proc.Exiting(r.pid)
		}
		s.strike(unix.SIGTERM)
		s.strike(unix.SIGCONT) // a stopped process takes no SIGTERM
		e.deadline = now.Add(e.grace)
	case asked:
		e.phase = killing
		e.deadline = now
		fallthrough
	case killing:
		s.strike(unix.SIGKILL)
		if now.Sub(e.deadline) < time.Second {
			e.timer.Reset(killAgain)
		} else {
			e.timer.Reset(killSlowly)
		}
		return
	}
	e.timer.Reset(e.grace)
}

// strike sends a signal to all that is left of the job; but for ranks and what they have
// in their process groups, if the rest may stay.
func (s *session) strike(sig unix.Signal) {
	if !s.mayStay() {
		proc.Signal(sig)
		return
	}
	for _, r := range s.ranks {
		if r.alive() {
			unix.Kill(-r.pid, sig)
		}
	}
}

// mayStay reports whether what ranks leave behind is none of our business.
func (s *session) mayStay() bool { return s.prepare != nil && s.prepare.Supervision.Children }

// awaitSilence waits until the pipes of all ranks have ended: nobody is left who could
// write, but what a leftover child last wrote may still be in them. If the job is being
// ended, and nobody takes it, that is given up after lastWords; else mpiexec is told that
// no process is left.
func (s *session) awaitSilence() {
	if s.awaiting {
		return
	}
	s.awaiting = true
	s.noise++
	noise := s.noise
	var open []*source
	for _, r := range s.ranks {
		if r.out != nil {
			open = append(open, r.out, r.err)
		}
	}
	stay := s.mayStay()
	go func() {
		slow := time.NewTimer(slowReader)
		defer slow.Stop()
		var late <-chan time.Time
		hurry := s.hurry
		if stay {
			late = time.After(lastWords) // those who stay may keep their pipes for ever
		}
		for i := 0; i < len(open); {
			select {
			case <-open[i].ended:
				i++
			case <-hurry:
				late, hurry = time.After(lastWords), nil
			case <-slow.C:
				s.tell(slowEvent{noise})
			case <-late:
				i = len(open)
			}
		}
		s.tell(silentEvent{noise})
	}()
}

// checkDrained tells mpiexec, once, when nothing of the job is left here and every
// rank's end was reported.
func (s *session) checkDrained() {
	if !s.running || len(s.preparing) > 0 || !s.childless || s.forking > 0 || s.reporting > 0 || !s.silent || s.drained || s.over {
		return
	}
	s.drained = true
	orphans := s.owners.list(s.byRank)
	s.clerk.do(func() {
		s.clerk.releaseAll() // first, so that the next job finds the CPUs free
		s.conn.Send(&wire.Drained{Orphans: orphans})
	})
}
