//go:build linux

package helper

import (
	"errors"

	"remshell/helper/claims"
	"remshell/helper/life"
	"remshell/wire"
)

/*
A job that is started again keeps its helpers (survive.md SV-2). To each attempt the helper is a new
one: of the session before nothing is left but the connection, and what it has claimed.

	mpiexec                                      helper
	   | <--------------------------------- Drained   nothing of the attempt lives here
	   | Renew ----------------------------------->   the claims rest; the session ends
	   | <--------------------------------- Renewed   that of the next attempt has begun
	   |      fence, pause                            it watches the link, as the one before did, and hears what
	   | <------------------------------------- Ask   is asked of the job
	   | Answer ---------------------------------->
	   | Survey, Prepare ------------------------->
	   | Start ----------------------------------->   what has rested is given up
*/
type restedEvent struct{ claims.Rested }

// errAnew is why nobody of an attempt gets an answer any more, and the end of a session whose ranks
// live when mpiexec takes them for ended.
var errAnew = errors.New("mpiexec begins another attempt")

// ceded takes what the session has claimed, behind all that it was asked to claim, and ends it.
func (s *session) ceded(e restedEvent) {
	s.fault, s.rested = errAnew, e.Rested
	if s.decide(life.Renew{}); s.life.Anew() {
		s.fault = nil
	}
}

// renew begins the session of the next attempt.
func (s *session) renew() *session {
	next := newSession(s.conn.Renew(), s.sys, s.rested)
	next.cpus, next.topology = s.cpus, s.topology
	if s.watched != nil {
		next.watchOver(s.watched)
	}
	next.conn.Send(&wire.Renewed{})
	if s.prepare != nil { // what is asked between two attempts is answered then
		next.claims.Hear(s.prepare.Claim.Ledger, s.prepare.Job)
	}
	return next
}

// watchOver watches the link to mpiexec from now on, as it says how.
func (s *session) watchOver(of *wire.Supervision) {
	if s.watched != nil {
		return
	}
	s.watched = of
	watchLink(s.sys, of.Silence, s)
	if of.Held {
		go s.beat()
	}
}

// A spareEvent is the answer of the node's ledger for a node that is to have no ranks (SV-7).
type spareEvent struct{ claimedEvent }

// spare tells mpiexec what came of it. There is nothing else to be made ready.
func (s *session) spare(e spareEvent) {
	if e.Barred != "" || e.Taken != "" {
		s.refuse(e.claimedEvent)
		return
	}
	s.watchOver(&e.m.Supervision)
	s.conn.Send(&wire.Prepared{Group: e.m.Group.Name, Notice: e.Notice})
}
