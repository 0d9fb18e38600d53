//go:build linux

package helper

import (
	"golang.org/x/sys/unix"

	"remshell/helper/claims"
	"remshell/helper/diagnose"
	"remshell/helper/lifecycle"
	"remshell/helper/probe"
	"remshell/wire"
)

// sessionHandlers lists the messages from mpiexec that the session itself handles. Features, the claims worker
// and the diagnose.Examiner have tables of their own. Each kind of message is in only one table.
var sessionHandlers = func() (o wire.Owner[*Session]) {
	// Groups of ranks, from their preparation to their end.
	wire.Handle(&o, func(s *Session, m *wire.Prepare) {
		if m.Claim.Entry.IdleReason != "" {
			s.claims.Claim(m, func(a claims.ClaimResult) { s.PostEvent(standbyClaimedEvent{claimedEvent{m, a}}) })
			return
		}
		s.stepLifecycle(lifecycle.Prepare{Group: m.Group.Name, Payload: m})
	})
	wire.Handle(&o, func(s *Session, m *wire.CancelPrepare) { // goes through the claims worker, as a Prepare does, to keep the order
		s.claims.Release(m.Group, func() { s.PostEvent(lifecycle.Released{Group: m.Group}) })
	})
	wire.Handle(&o, func(s *Session, m *wire.Start) {
		s.claims.ReleaseCarried() // the group has its claim; carried claims that it did not use are released
		s.stepLifecycle(lifecycle.Start{Group: m.Group, Rendezvous: m.Rendezvous})
	})
	wire.Handle(&o, func(s *Session, m *wire.KillGroup) { s.stepLifecycle(lifecycle.KillGroup{Group: m.Group}) })
	wire.Handle(&o, func(s *Session, m *wire.EndJob) {
		s.stepLifecycle(lifecycle.End{Linger: m.Linger, Grace: m.Grace})
	})
	wire.Handle(&o, func(s *Session, _ *wire.Bye) { s.stepLifecycle(lifecycle.Bye{}) })

	// The next attempt.
	wire.Handle(&o, func(s *Session, _ *wire.NextAttempt) {
		s.claims.CarryOver(func(r claims.CarriedClaims) { s.PostEvent(claimsCarriedEvent{r}) })
	})
	wire.Handle(&o, func(s *Session, _ *wire.ReleaseClaims) { s.claims.ReleaseCarried() })

	// Streams.
	wire.Handle(&o, func(s *Session, m *wire.Data) { s.addInput(m.Rank, m) })
	wire.Handle(&o, func(s *Session, m *wire.StdinBroadcast) { // the ranks share its bytes and do not change them
		for _, rank := range m.Ranks {
			s.addInput(rank, &wire.Data{Rank: rank, Stream: wire.Stdin, Bytes: m.Bytes})
		}
	})
	wire.Handle(&o, (*Session).addCredit)
	wire.Handle(&o, func(s *Session, m *wire.ResizeTerminal) {
		for _, r := range s.ranks {
			r.resizeTerminal(unix.Winsize{Row: uint16(m.Rows), Col: uint16(m.Cols)})
		}
	})

	// Signals.
	wire.Handle(&o, func(s *Session, m *wire.Signal) {
		if !s.alreadySignaled(unix.Signal(m.Number)) {
			s.stepLifecycle(lifecycle.Signal{Number: m.Number})
		}
	})
	wire.Handle(&o, func(s *Session, m *wire.Hold) {
		s.claims.SetHold(m.Why, m.On)
		s.stepLifecycle(lifecycle.Hold{Why: m.Why, On: m.On})
	})

	// PMI and PMIx.
	wire.Handle(&o, func(s *Session, m *wire.Fenced) {
		if s.fences.Deliver(m) {
			s.giveUpFence(m)
		}
	})
	wire.Handle(&o, func(s *Session, m *wire.RankMap) { s.requests.Deliver(m.ID, m) })
	wire.Handle(&o, func(s *Session, m *wire.GroupEnded) {
		if s.pmix != nil {
			s.pmix.server.RemoveGroup(m.Group)
		}
	})

	// What mpiexec asks.
	wire.Handle(&o, func(s *Session, m *wire.WriteMark) {
		s.conn.Send(&wire.MarkWritten{Err: s.markerFiles.Create(m.Tag, m.Mark)})
	})
	wire.Handle(&o, func(s *Session, m *wire.ReadMarks) {
		s.conn.Send(&wire.MarksRead{Marks: probe.FindMarkers(m.Tag, wire.MaxMarks)})
	})
	return o
}()

// Handle makes the session's goroutine call handle for each message of type M from mpiexec.
func Handle[M wire.Message](s *Session, handle func(M)) {
	if s.featureHandlers == nil {
		s.featureHandlers = make(map[byte]func(wire.Message))
	}
	s.featureHandlers[wire.NumberFor[M]()] = func(m wire.Message) { handle(m.(M)) }
}

// handleFrame passes a message to the part of the helper that handles its type: the session, a feature, the claims
// worker or the examiner.
func (s *Session) handleFrame(m wire.Message) {
	switch feature := s.featureHandlers[wire.NumberOf(m)]; {
	case sessionHandlers.Owns(m):
		sessionHandlers.Handle(s, m)
	case feature != nil:
		feature(m)
	case claims.Owns(m):
		s.claims.HandleMessage(m)
	case diagnose.Owns(m):
		s.examiner.HandleMessage(m)
	default:
		s.log.warn("ignored an unexpected message from mpiexec: %s", wire.NameOf(m))
	}
}
