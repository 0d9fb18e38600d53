//go:build linux

package helper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"remshell/helper/claims"
	"remshell/helper/diagnose"
	"remshell/helper/lifecycle"
	"remshell/helper/pmidetect"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/rpc"
	"remshell/job"
	"remshell/ledger"
	"remshell/pin"
	"remshell/pipe"
	"remshell/proc"
	"remshell/wire"
)

// A Session is the state of one helper during one attempt (one run of all ranks of the job). Only the session's
// goroutine, which executes run, uses the fields; other goroutines send events to it. The field Lifecycle decides what
// to do.
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

	forkState
	pmiServices
	services
	orphans       orphanUsage
	nonJob        nonJobProcesses // debuggers and the guard
	kernelDenials proc.Denials    // as counted before the job
	helperSignals
	stopCounter

	Hooks           Hooks                       // of the features
	Providers       Providers                   // of the features
	featureHandlers map[byte]func(wire.Message) // by kind of message; see Handle

	cpus     int          // one more than the highest CPU number of this machine
	topology pin.Topology // not changed once it is known
}

// A forkState holds the state needed for forking ranks and for waiting until they end.
type forkState struct {
	forkThread       rank.ForkThread
	leadSessions     bool              // each rank leads a session
	stopForking      *atomic.Bool      // the fork thread starts no further rank
	priorityReported bool              // setPriority has reported; only the fork thread uses it
	jobEnding        chan struct{}     // closed when the job is being ended
	moreChildren     chan struct{}     // wakes reapLoop: there may be children again
	guard            guard             // of a helper inside mpiexec, while processes of the job live
	guardTimer       *time.Timer       // fires guardCheckDue; nil: never set
	heldClaim        *ledger.HeldClaim // the claim that the guard keeps; nil: none
	jobsAtBegin      []job.Claim       // all claims on the node when the job's first claim had been made; nil: not read
}

// A pmiServices connects the PMI servers of this node with mpiexec and with the ranks.
type pmiServices struct {
	fences   *rpc.Fences
	requests *rpc.Requests
	port     *pmiPort     // nil: no rank uses PMI_PORT
	pmix     *pmixService // nil: no rank is offered PMIx

	pmixClosing sync.WaitGroup  // runs while PMIx servers close
	keptDirs    keptSessionDirs // session directories left by PMIx servers
}

// A services holds further services of the helper. Each of them runs on goroutines of its own.
type services struct {
	claims          *claims.Worker
	examiner        *diagnose.Examiner
	markerFiles     probe.MarkerFiles
	linkSupervision *wire.Supervision // how to supervise the link to mpiexec; nil: the link is not watched
	pipeSizes       *pipe.SizePool    // bounds the enlarged pipes of ranks that write much
}

// These are events that goroutines of the session post for the method run. Package lifecycle defines further events.
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
	guardCheckDue struct{}
	shortJobOver  struct{}
	linkDeadEvent struct{ silent time.Duration }
	postedEvent   func() // by a feature
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
		pmiServices:   pmiServices{fences: rpc.NewFences(c.Send), requests: rpc.NewRequests(c.Send)},
		orphans:       newOrphanUsage(),
		helperSignals: newHelperSignals(),
	}
	for _, f := range features {
		f.Attach(s)
	}
	s.pipeSizes = pipe.NewSizePool(maxGrowthTotal)
	s.claims = claims.New(sys.Root, sys.Environ, c.Send, carried)
	s.claims.CollectStates, s.claims.Now = s.Providers.CollectStates, sys.Now
	s.examiner = diagnose.New(diagnose.Node{Root: sys.Root, Environ: sys.Environ, Now: sys.Now}, c.Send)
	return s
}

// PostEvent passes an event to the goroutine of run. The event is dropped if run has returned.
func (s *Session) PostEvent(event any) {
	select {
	case s.events <- event:
	case <-s.done:
	}
}

// readFrames reads messages from the connection and posts them as events. It never waits for a rank, because credit
// limits how much input is queued. It stops after NextAttempt: the session of the next attempt reads the messages that
// follow.
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

/*
run handles events until the session has nothing left to do. Only this goroutine touches the session's state. It
passes messages and events to the lifecycle, and perform carries out the actions that the lifecycle returns:

	in from mpiexec, or an event     actions                              out to mpiexec
	Prepare                          Claim
	  the claims worker is done      PrepareGroup                         Prepared, or Refused, ClaimConflict
	Start                            Fork
	  the fork thread is done        ReportStarted, for each rank         Started
	  a child has ended              NoteExit, CountOrphan
	  a rank's output is sent        ReportExit                           Exited
	EndJob                           StartEnding, TerminateAll, KillAll
	  no process is left             AwaitPipesClosed, ReportDrained      ProcessesGone, Drained
	Bye, or NextAttempt              run returns

supervision.md contains the table of the lifecycle.
*/
func (s *Session) run(ctx context.Context) error {
	defer close(s.done)
	for !s.Lifecycle.Done() {
		select {
		case event := <-s.events:
			s.handleEvent(event)
		case sig := <-s.sys.Signals:
			s.handleOwnSignal(sig)
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
			s.endDisconnected(fmt.Errorf("the connection to mpiexec ended: %w", e.err))
		}
	case linkDeadEvent:
		s.endDisconnected(fmt.Errorf("mpiexec did not reply for %v", e.silent))
	case claimedEvent:
		of := e.m.Supervision
		s.stepLifecycle(lifecycle.Claimed{Group: e.m.Group.Name, Rules: lifecycle.Rules{Grace: of.Grace, LeaveProcesses: of.LeaveChildren},
			Refused: e.Forbidden != "" || e.Conflict != "", Payload: e})
	case forkedEvent:
		s.handleForked(e)
	case postedEvent:
		e()
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
	case halfGraceOver:
		s.stepLifecycle(lifecycle.End{Grace: e.grace})
	case shortJobOver:
		s.countDenials(true)
		s.beginLongJob()
	case lifecycle.ChildEnded:
		if e.PID == s.guard.pid { // another process killed the guard
			s.guard.closePipe()
		}
		if s.Lifecycle.IsRank(e.PID) || !s.nonJob.removeReaped(e.PID) {
			s.stepLifecycle(e)
		}
	default:
		s.stepLifecycle(e)
	}
}

// stepLifecycle passes an event to the lifecycle and performs the actions that the lifecycle returns.
func (s *Session) stepLifecycle(event any) {
	for _, action := range s.Lifecycle.Step(event, time.Now()) {
		s.perform(action)
	}
}

// endDisconnected ends the job because the connection to mpiexec is lost.
func (s *Session) endDisconnected(cause error) {
	s.endErr = cause
	s.stepLifecycle(lifecycle.MpiexecLost{})
}

// addInput queues a piece of input for a rank. It drops the piece if the rank is not on this node or has no
// stdin.
func (s *Session) addInput(rank int, piece *wire.Data) {
	if r := s.byRank[rank]; r != nil && r.stdin != nil {
		r.stdin.addPiece(piece)
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

// Disconnect ends the job as if the connection to mpiexec were lost. It is called when mpiexec has broken the
// protocol; cause says how.
func (s *Session) Disconnect(cause error) { s.endDisconnected(cause) }
