//go:build linux

package helper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/claims"
	"remshell/helper/diagnose"
	"remshell/helper/lifecycle"
	"remshell/helper/pmidetect"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/rpc"
	"remshell/helper/stage"
	"remshell/helper/status"
	"remshell/job"
	"remshell/ledger"
	"remshell/pin"
	"remshell/pipe"
	"remshell/wire"
)

// A Session is the state of one helper during one attempt. The goroutine of run owns all fields; other goroutines send
// it events. Its field lifecycle decides what to do.
type Session struct {
	conn   *wire.Conn
	sys    System
	log    logger
	events chan any
	done   chan struct{} // closed when run returns; events are not accepted any more

	Lifecycle *lifecycle.State
	endTimer  *time.Timer // fires lifecycle.TimerFired; nil: never set
	endErr    error       // why the connection ended; nil after Bye

	carriedClaims claims.CarriedClaims // claims that the next attempt's session takes over; nil: none

	Prepare     *wire.Prepare // the first one; its settings for the whole job hold for all groups
	pmiDetector *pmidetect.Detector
	groups      map[string]*Group // by name; groups that are not over
	ranks       map[int]*Rank     // by lifecycle number; ranks started here, until their pipes are closed
	byRank      map[int]*Rank     // by number in the job; nil for a rank that was removed from ranks
	endedStates []job.RankState   // final states of ranks that were removed from ranks

	forkState
	pmiServices
	services
	rankUsage
	helperSignals
	nodeLimits
	stopCounter

	Hooks Hooks // of the features

	cpus     int          // one more than the highest CPU number of this machine
	topology pin.Topology // not changed once it is known
}

// A forkState is the state of forking ranks and waiting for them.
type forkState struct {
	forkThread   rank.ForkThread
	leadSessions bool              // each rank leads a session
	stopForking  *atomic.Bool      // the fork thread starts no further rank
	jobEnding    chan struct{}     // closed when the job is being ended
	moreChildren chan struct{}     // wakes reapLoop: there may be children again
	guard        guard             // of a helper inside mpiexec, while processes of the job live
	guardTimer   *time.Timer       // fires guardCheckDue; nil: never set
	heldClaim    *ledger.HeldClaim // the claim that the guard keeps; nil: none
}

// A pmiServices connects the PMI servers of this node with mpiexec and with the ranks.
type pmiServices struct {
	fences   *rpc.Fences
	fetches  *rpc.Fetches
	notices  *rpc.Notices
	texts    *rpc.HelpTexts
	requests *rpc.Requests
	port     *pmiPort     // nil: no rank uses PMI_PORT
	pmix     *pmixService // nil: no rank is offered PMIx

	pmixClosing sync.WaitGroup  // runs while PMIx servers close
	keptDirs    keptSessionDirs // session directories left by PMIx servers
}

// A services holds the helper's other services. Each works on goroutines of its own.
type services struct {
	claims          *claims.Worker
	examiner        *diagnose.Examiner
	staging         *stage.Staging // nil: no files are staged
	socket          status.Socket
	markerFiles     probe.MarkerFiles
	linkSupervision *wire.Supervision // how to supervise the link to mpiexec; nil: the link is not watched
	pipeSizes       *pipe.SizePool    // bounds the enlarged pipes of ranks that write much
}

// The events that a session's goroutines send to run, beside those of package lifecycle.
type (
	frameEvent       struct{ m wire.Message }
	inputEndedEvent  struct{ err error }
	pipesClosedEvent struct{ r *Rank }
	forkedEvent      struct {
		r *Rank
		rank.Process
		at     time.Time
		failed *rank.Error // set if the rank does not run; then only r is set too
	}
	claimedEvent struct {
		m *wire.Prepare
		claims.ClaimResult
	}
	guardCheckDue   struct{}
	statusSocketDue struct{}
	stacksDone      struct{ states []job.RankState }
	statesWanted    struct{ answer chan<- []job.RankState } // buffered for one answer
	linkDeadEvent   struct{ silent time.Duration }
)

func newSession(c *wire.Conn, sys System, carried claims.CarriedClaims) *Session {
	sys.Environ = rank.WithDefaultPath(sys.Environ)
	s := &Session{
		conn:        c,
		sys:         sys,
		log:         logger{c},
		events:      make(chan any, 64),
		done:        make(chan struct{}),
		Lifecycle:   lifecycle.New(),
		pmiDetector: pmidetect.NewDetector(pmidetect.Disk{}),
		groups:      make(map[string]*Group),
		ranks:       make(map[int]*Rank),
		byRank:      make(map[int]*Rank),
		forkState: forkState{
			forkThread:   rank.NewForkThread(),
			leadSessions: sys.ranksLeadSessions(),
			stopForking:  new(atomic.Bool),
			jobEnding:    make(chan struct{}),
			moreChildren: make(chan struct{}, 1),
		},
		pmiServices:   pmiServices{fences: rpc.NewFences(c.Send), fetches: rpc.NewFetches(c.Send, c.Flush), notices: rpc.NewNotices(c.Send), texts: rpc.NewHelpTexts(c.Send), requests: rpc.NewRequests(c.Send)},
		rankUsage:     rankUsage{orphans: newOrphanUsage()},
		helperSignals: newHelperSignals(),
	}
	for _, f := range features {
		f.Attach(s)
	}
	s.pipeSizes = pipe.NewSizePool(maxGrowthTotal)
	s.claims = claims.New(sys.Root, sys.Environ, c.Send, carried)
	s.examiner = diagnose.New(diagnose.Node{Root: sys.Root, Environ: sys.Environ, Now: sys.Now}, c.Send)
	return s
}

// PostEvent sends run an event. The event is dropped if run has returned.
func (s *Session) PostEvent(event any) {
	select {
	case s.events <- event:
	case <-s.done:
	}
}

// readFrames reads frames from the connection and posts them as events. It never waits for a rank: the credit of
// streams bounds their queues.
func (s *Session) readFrames() {
	for {
		m, err := s.conn.Recv()
		if err != nil {
			s.PostEvent(inputEndedEvent{err})
			return
		}
		s.PostEvent(frameEvent{m})
		if _, last := m.(*wire.NextAttempt); last {
			return
		}
	}
}

// run handles events until the session has nothing left to do. Only this goroutine touches the session's state.
func (s *Session) run(ctx context.Context) error {
	defer close(s.done)
	for !s.Lifecycle.Done() {
		select {
		case event := <-s.events:
			s.handleEvent(event)
		case sig := <-s.sys.Signals:
			s.handleSignal(sig)
		case <-ctx.Done():
			s.endDisconnected(context.Cause(ctx))
			go s.conn.Close() // mpiexec must see this close before it sees ranks end
			ctx = context.WithoutCancel(ctx)
		}
	}
	return s.endErr
}

func (s *Session) handleEvent(event any) {
	switch e := event.(type) {
	case frameEvent:
		s.handleFrame(e.m)
	case inputEndedEvent:
		if !s.Lifecycle.IsDisconnected() {
			s.endDisconnected(fmt.Errorf("mpiexec is gone: %w", e.err))
		}
	case linkDeadEvent:
		s.endDisconnected(fmt.Errorf("mpiexec has not been reachable for %v", e.silent))
	case claimedEvent:
		of := e.m.Supervision
		s.stepLifecycle(lifecycle.Claimed{Group: e.m.Group.Name, Rules: lifecycle.Rules{Grace: of.Grace, LeaveProcesses: of.LeaveChildren},
			Refused: e.Forbidden != "" || e.Conflict != "", Payload: e})
	case stagedEvent:
		s.reportStaged(e)
	case forkedEvent:
		s.handleForked(e)
	case usageEvent:
		s.reportUsage(e)
	case pipesClosedEvent:
		s.retireRank(e.r)
	case claimsCarriedEvent:
		s.endAttempt(e)
	case standbyClaimedEvent:
		s.reportStandby(e)
	case stopCheckDue:
		s.reportNotStopped(e)
	case guardCheckDue:
		s.updateGuard()
	case endedBySignal:
		s.endDisconnected(fmt.Errorf("got signal %d", e.number))
		go s.conn.Close() // mpiexec must see this close before it sees ranks end
	case endNotOrdered:
		s.stepLifecycle(lifecycle.End{Grace: e.grace})
	case stacksDone:
		s.conn.Send(&wire.RankStates{Ranks: e.states})
		s.stepLifecycle(lifecycle.StacksReported{})
	case statusSocketDue:
		s.countDenials(true)
		s.openStatusSocket()
	case statesWanted:
		e.answer <- s.rankStates()
	case lifecycle.ChildEnded:
		if e.PID == s.guard.pid { // somebody killed the guard
			s.guard.closePipe()
		}
		if s.Lifecycle.IsRank(e.PID) || !s.nonJob.removeReaped(e.PID) {
			s.stepLifecycle(e)
		}
	default:
		s.stepLifecycle(e)
	}
}

// stepLifecycle gives an event to the lifecycle and performs the actions that it returns.
func (s *Session) stepLifecycle(event any) {
	for _, action := range s.Lifecycle.Step(event, time.Now()) {
		s.perform(action)
	}
}

// endDisconnected ends the job because the connection to mpiexec is lost.
func (s *Session) endDisconnected(why error) {
	s.endErr = why
	s.stepLifecycle(lifecycle.MpiexecLost{})
}

func (s *Session) handleFrame(m wire.Message) {
	switch m := m.(type) {
	case *wire.LockDecision, *wire.UnlockDecision, *wire.Survey, *wire.Enqueue, *wire.Dequeue, *wire.WatchClaims, *wire.ListLedger, *wire.SignalJob, *wire.Overtake, *wire.Evict, *wire.ControlRequest, *wire.ControlReply, *wire.Ping:
		s.claims.HandleMessage(m)
	case *wire.Prepare:
		if m.Claim.Entry.IdleReason != "" {
			s.claims.Claim(m, func(a claims.ClaimResult) { s.PostEvent(standbyClaimedEvent{claimedEvent{m, a}}) })
			return
		}
		s.stepLifecycle(lifecycle.Prepare{Group: m.Group.Name, Payload: m})
	case *wire.Diagnose, *wire.OpenProbePort, *wire.ProbePeers:
		s.examiner.HandleMessage(m)
	case *wire.CancelPrepare: // goes through the claims worker, as a Prepare does, to keep the order
		s.claims.Release(m.Group, func() { s.PostEvent(lifecycle.Released{Group: m.Group}) })
	case *wire.ReleaseClaims:
		s.claims.ReleaseCarried()
	case *wire.NextAttempt:
		s.claims.CarryOver(func(r claims.CarriedClaims) { s.PostEvent(claimsCarriedEvent{r}) })
	case *wire.Start:
		s.claims.ReleaseCarried() // the group has its claim; carried claims that it did not use are released
		s.stepLifecycle(lifecycle.Start{Group: m.Group, Rendezvous: m.Rendezvous})
	case *wire.KillGroup:
		s.stepLifecycle(lifecycle.KillGroup{Group: m.Group})
	case *wire.StageFiles:
		s.beginStaging(m)
	case *wire.FileChunk:
		s.receivePiece(m)
	case *wire.Data:
		if r := s.byRank[m.Rank]; r != nil && r.stdin != nil {
			r.stdin.addPiece(m)
		}
	case *wire.StdinBroadcast:
		s.feed(m)
	case *wire.Credit:
		s.addCredit(m)
	case *wire.Fenced:
		if s.fences.Deliver(m) {
			s.giveUpFence(m)
		}
	case *wire.Notify:
		s.deliverEvent(m)
	case *wire.Notified:
		s.notices.Deliver(m)
	case *wire.ShowHelpReply:
		s.texts.Deliver(m)
	case *wire.Fetch:
		s.fetches.ServeFetch(m, s.serveFetch)
	case *wire.Fetched:
		s.fetches.Deliver(m)
	case *wire.NameReply:
		s.requests.Deliver(m.ID, m)
	case *wire.NamePublished:
		s.requests.NamePosted(m.Service)
	case *wire.Spawned:
		s.requests.Deliver(m.ID, m)
	case *wire.RankMap:
		s.requests.Deliver(m.ID, m)
	case *wire.FailedRanks:
		s.reportDeadRanks(m)
	case *wire.GroupEnded:
		if s.pmix != nil {
			s.pmix.server.RemoveGroup(m.Group)
		}
	case *wire.ResizeTerminal:
		for _, r := range s.ranks {
			r.resizeTerminal(unix.Winsize{Row: uint16(m.Rows), Col: uint16(m.Cols)})
		}
	case *wire.Signal:
		if !s.alreadySignaled(unix.Signal(m.Number)) {
			s.stepLifecycle(lifecycle.Signal{Number: m.Number})
		}
	case *wire.Hold:
		if m.Why == job.HoldLauncherStopped {
			s.claims.SetStopped(m.On)
		}
		s.stepLifecycle(lifecycle.Hold{Why: m.Why, On: m.On})
	case *wire.WriteMark:
		s.conn.Send(&wire.MarkWritten{Err: s.markerFiles.Create(m.Tag, m.Mark)})
	case *wire.ReadMarks:
		s.conn.Send(&wire.MarksRead{Marks: probe.FindMarkers(m.Tag, wire.MaxMarks)})
	case *wire.InspectRanks:
		if m.Stacks {
			s.stepLifecycle(lifecycle.RequestStacks{})
			return
		}
		s.reportStates()
	case *wire.EndJob:
		s.stepLifecycle(lifecycle.End{Linger: m.Linger, Grace: m.Grace})
	case *wire.Bye:
		s.stepLifecycle(lifecycle.Bye{})
	default:
		s.log.warn("mpiexec sent %s: ignored", wire.NameOf(m))
	}
}

// feed queues one piece of input for several ranks. The ranks share its bytes and do not change them.
func (s *Session) feed(m *wire.StdinBroadcast) {
	for _, rank := range m.Ranks {
		if r := s.byRank[rank]; r != nil && r.stdin != nil {
			r.stdin.addPiece(&wire.Data{Rank: rank, Stream: wire.Stdin, Bytes: m.Bytes})
		}
	}
}

func (s *Session) addCredit(m *wire.Credit) {
	r := s.byRank[m.Rank]
	if r == nil || r.stdout == nil {
		return
	}
	switch m.Stream {
	case wire.Stdout:
		r.stdout.addCredit(m.Bytes)
	case wire.Stderr:
		r.stderr.addCredit(m.Bytes)
	}
}
