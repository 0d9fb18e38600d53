//go:build linux

package helper

import (
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/life"
	"remshell/proc"
	"remshell/wire"
)

const (
	// lastWords is how long the end of a rank waits for somebody to take the rest
	// of its output (IO-10).
	lastWords = 2 * time.Second

	// slowReader is after how long mpiexec hears that only its reader is waited for.
	slowReader = time.Second
)

// hurryUp lets no rank come up any more, and none be led to a happy end (pmi-wire.md 6.3).
func (s *session) hurryUp() {
	if !s.stopForking.Swap(true) {
		close(s.hurry)
	}
	for _, g := range s.groups {
		g.pmi.Freeze()
	}
	if s.pmix != nil {
		s.pmix.server.Freeze()
	}
}

// ask sends SIGTERM to all that is left. A rank that is about to end by itself was not asked to.
func (s *session) ask() {
	s.owners.adopt(s.life.IsRank)
	for _, r := range s.ranks {
		r.dying = r.alive() && proc.Exiting(r.begun.PID)
	}
	if !s.had(unix.SIGTERM) {
		s.strike(unix.SIGTERM)
	}
	s.strike(unix.SIGCONT) // a stopped process takes no SIGTERM
}

// strike sends a signal to all that is left of the job; but for ranks and what they have
// in their process groups, if the rest may stay.
func (s *session) strike(sig unix.Signal) {
	if !s.life.MayStay() {
		proc.Signal(sig)
		return
	}
	for _, r := range s.ranks {
		if r.alive() {
			unix.Kill(-r.begun.PID, sig)
		}
	}
}

// awaitSilence waits until the pipes of all ranks have ended: nobody is left who could
// write, but what a leftover child last wrote may still be in them. If the job is being
// ended, and nobody takes it, that is given up after lastWords; else mpiexec is told that
// no process is left.
func (s *session) awaitSilence(noise int) {
	var open []*source
	for _, r := range s.ranks {
		if r.out != nil {
			open = append(open, r.out, r.err)
		}
	}
	stay := s.life.MayStay()
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
				s.tell(life.Slow{Noise: noise})
			case <-late:
				i = len(open)
			}
		}
		s.tell(life.Silence{Noise: noise})
	}()
}

// tellDrained tells mpiexec that nothing of the job is left here.
func (s *session) tellDrained() {
	orphans := s.owners.list(s.byRank)
	go func() {
		s.closing.Wait()
		s.claims.ReleaseAll(func() { // first, so that the next job finds the CPUs free
			s.conn.Send(&wire.Drained{Orphans: orphans})
		})
	}()
}
