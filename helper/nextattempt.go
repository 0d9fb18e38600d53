//go:build linux

package helper

import (
	"errors"

	"remshell/helper/claims"
	"remshell/helper/lifecycle"
	"remshell/wire"
)

/*
A claimsCarriedEvent contains the claims that the job keeps for its next attempt. It is the last event of a session: the
current attempt then ends.

A job that is started again keeps its helpers (survive.md SV-2). Each attempt has a session of its own. Only the
connection and the claims outlive a session.

	mpiexec                                      helper
	   | <--------------------------------- Drained   no process of the attempt is left here
	   | NextAttempt ----------------------------->   the claims are carried over; the session ends
	   | <---------------------------- AttemptReady   the session of the next attempt has begun
	   |      decision lock, pause                    like the one before, it watches the link and receives
	   | <-------------------------- ControlRequest   requests to the job
	   | ControlReply ---------------------------->
	   | Survey, Prepare ------------------------->
	   | Start ----------------------------------->   carried claims that were not used again are released
*/
type claimsCarriedEvent struct{ claims.CarriedClaims }

// errNextAttempt is the error for requests without a reply when an attempt (one run of all ranks) ends because the
// job is restarted. A session also returns it if mpiexec begins another attempt while ranks are still running on this
// node.
var errNextAttempt = errors.New("mpiexec restarts the job")

// endAttempt ends the session of an attempt (one run of all ranks). It keeps the session's claims for the
// next attempt.
func (s *Session) endAttempt(e claimsCarriedEvent) {
	s.endErr, s.carriedClaims = errNextAttempt, e.CarriedClaims
	if s.stepLifecycle(lifecycle.EndAttempt{}); s.Lifecycle.HasNextAttempt() {
		s.endErr = nil
	}
}

// nextAttempt returns the session for the next attempt (one run of all ranks). It uses the same connection.
func (s *Session) nextAttempt() *Session {
	next := newSession(s.conn.Successor(), s.sys, s.carriedClaims)
	next.cpus, next.topology = s.cpus, s.topology
	if s.linkSupervision != nil {
		next.startLinkWatch(s.linkSupervision)
	}
	next.conn.Send(&wire.AttemptReady{})
	if s.Prepare != nil { // requests between two attempts are answered, too
		next.claims.ReceiveRequests(s.Prepare.Claim.Ledger, s.Prepare.Job)
	}
	return next
}

// startLinkWatch starts to watch the link to mpiexec, if it is not watched yet.
func (s *Session) startLinkWatch(supervision *wire.Supervision) {
	if s.linkSupervision != nil {
		return
	}
	s.linkSupervision = supervision
	watchLink(s.sys, supervision.Silence, s)
	if supervision.BatchStarted {
		go s.sendHeartbeats()
	}
}

// A standbyClaimedEvent is the result of a claim for a standby node, which the job holds in reserve and
// which gets no ranks (rule SV-7).
type standbyClaimedEvent struct{ claimedEvent }

// reportStandby reports to mpiexec whether the CPUs of this node could be claimed for a standby node. A
// standby node prepares nothing else.
func (s *Session) reportStandby(e standbyClaimedEvent) {
	if e.Forbidden != "" || e.Conflict != "" {
		s.reportRefused(e.claimedEvent)
		return
	}
	s.startLinkWatch(&e.m.Supervision)
	s.conn.Send(&wire.Prepared{Group: e.m.Group.Name, Notice: e.Notice})
}
