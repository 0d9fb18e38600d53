//go:build linux

package helper

import (
	"errors"

	"remshell/helper/claims"
	"remshell/helper/lifecycle"
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
type claimsCarriedEvent struct{ claims.CarriedClaims }

// errNextAttempt is why nobody of an attempt gets an answer any more, and the end of a session whose ranks
// live when mpiexec takes them for ended.
var errNextAttempt = errors.New("mpiexec begins another attempt")

// endAttempt takes what the session has claimed, behind all that it was asked to claim, and ends it.
func (s *session) endAttempt(e claimsCarriedEvent) {
	s.endErr, s.carriedClaims = errNextAttempt, e.CarriedClaims
	if s.stepLifecycle(lifecycle.EndAttempt{}); s.life.HasNextAttempt() {
		s.endErr = nil
	}
}

// nextAttempt begins the session of the next attempt.
func (s *session) nextAttempt() *session {
	next := newSession(s.conn.Successor(), s.sys, s.carriedClaims)
	next.cpus, next.topology = s.cpus, s.topology
	if s.linkSupervision != nil {
		next.startLinkWatch(s.linkSupervision)
	}
	next.conn.Send(&wire.AttemptReady{})
	if s.prepare != nil { // what is asked between two attempts is answered then
		next.claims.ReceiveRequests(s.prepare.Claim.Ledger, s.prepare.Job)
	}
	return next
}

// startLinkWatch watches the link to mpiexec from now on, as it says how.
func (s *session) startLinkWatch(of *wire.Supervision) {
	if s.linkSupervision != nil {
		return
	}
	s.linkSupervision = of
	watchLink(s.sys, of.Silence, s)
	if of.BatchStarted {
		go s.sendHeartbeats()
	}
}

// A standbyClaimedEvent is the answer of the node's ledger for a node that is to have no ranks (SV-7).
type standbyClaimedEvent struct{ claimedEvent }

// reportStandby tells mpiexec what came of it. There is nothing else to be made ready.
func (s *session) reportStandby(e standbyClaimedEvent) {
	if e.Barred != "" || e.Taken != "" {
		s.reportRefused(e.claimedEvent)
		return
	}
	s.startLinkWatch(&e.m.Supervision)
	s.conn.Send(&wire.Prepared{Group: e.m.Group.Name, Notice: e.Notice})
}
