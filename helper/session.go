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
	"remshell/helper/sysvipc"
	"remshell/job"
	"remshell/ledger"
	"remshell/pin"
	"remshell/pipe"
	"remshell/wire"
)

// A session is the work of one helper. The goroutine of run owns all fields; the
// others send it events. What it decides is in life, all else is what it decides about.
type session struct {
	conn   *wire.Conn
	sys    System
	log    logger
	events chan any
	done   chan struct{} // closed when run returns: nobody takes events any more

	life     *lifecycle.State
	endTimer *time.Timer // of life's Wake; nil: there was none
	endErr   error       // why the conversation was over, when it was not a Bye

	carriedClaims claims.CarriedClaims // what the session of the next attempt goes on to claim; nil: there is none

	prepare     *wire.Prepare // the first: what it says of the whole job holds for all
	pmiDetector *pmidetect.Judge
	groups      map[string]*group    // those that are not over
	ranks       map[int]*rankProcess // those of groups that were started, as life numbers them, until they are silent
	byRank      map[int]*rankProcess // by number in the job: those, and nil for each that was one of them
	endedStates []job.RankState      // what is kept of a rank that is over, and whose pipes have ended

	forkState
	pmiServices
	services
	rankUsage
	helperSignals
	nodeLimits
	stopCounter
	ipcTracker *sysvipc.Tracker // shared memory that ranks leave; nil: nobody cares, or it was freed

	cpus     int          // of this machine: one more than the highest number
	topology pin.Topology // does not change when it is known
}

// A forkState is how ranks come up and are waited for.
type forkState struct {
	forkThread   rank.ForkThread
	leadSessions bool              // each rank leads a session
	stopForking  *atomic.Bool      // the starter shall start no more
	jobEnding    chan struct{}     // closed when the job is being ended
	moreChildren chan struct{}     // the reaper may find children again
	guard        guard             // of a helper inside mpiexec, while something of the job lives
	guardTimer   *time.Timer       // of the next look after it; nil: there was none
	heldClaim    *ledger.HeldClaim // the claim that the guard is to keep; nil: none
}

// A pmiServices is what the PMI servers of this node have of mpiexec and of ranks.
type pmiServices struct {
	fences   *rpc.Fences
	fetches  *rpc.Fetches
	notices  *rpc.Notices
	texts    *rpc.HelpTexts
	requests *rpc.Requests
	port     *pmiPort     // nil: no rank wants it
	pmix     *pmixService // nil: no rank is offered PMIx

	pmixClosing sync.WaitGroup  // of what pmix was
	keptDirs    keptSessionDirs // of that
}

// Services are what does its work beside the ranks, on goroutines of its own.
type services struct {
	claims          *claims.Worker
	examiner        *diagnose.Examiner
	staging         *stage.Staging // nil: no files are to be staged
	socket          status.Socket
	markerFiles     probe.MarkerFiles
	linkSupervision *wire.Supervision // how the link to mpiexec is; nil: it is not
	pipeSizes       *pipe.SizePool    // what those of ranks may hold that write much
}

// What the goroutines around a session tell it, beside events of package life.
type (
	frameEvent       struct{ m wire.Message }
	inputEndedEvent  struct{ err error }
	pipesClosedEvent struct{ r *rankProcess }
	forkedEvent      struct {
		r *rankProcess
		rank.Process
		at     time.Time
		failed *rank.Error // it does not run; only r is set then
	}
	claimedEvent struct {
		m *wire.Prepare
		claims.ClaimResult
	}
	guardCheckDue   struct{}
	statusSocketDue struct{}
	stacksDone      struct{ states []job.RankState }
	statesWanted    struct{ answer chan<- []job.RankState } // with room for one
	linkDeadEvent   struct{ silent time.Duration }
)

func newSession(c *wire.Conn, sys System, rested claims.CarriedClaims) *session {
	sys.Environ = rank.WithDefaultPath(sys.Environ)
	s := &session{
		conn:        c,
		sys:         sys,
		log:         logger{c},
		events:      make(chan any, 64),
		done:        make(chan struct{}),
		life:        lifecycle.New(),
		pmiDetector: pmidetect.NewJudge(pmidetect.Disk{}),
		groups:      make(map[string]*group),
		ranks:       make(map[int]*rankProcess),
		byRank:      make(map[int]*rankProcess),
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
	s.pipeSizes = pipe.NewSizePool(maxGrowthTotal)
	s.claims = claims.New(sys.Root, sys.Environ, c.Send, rested)
	s.examiner = diagnose.New(diagnose.Node{Root: sys.Root, Environ: sys.Environ, Now: sys.Now}, c.Send)
	return s
}

// postEvent gives run an event, unless run has returned.
func (s *session) postEvent(event any) {
	select {
	case s.events <- event:
	case <-s.done:
	}
}

// readFrames is the reader of the connection. It sorts frames and never waits for a
// rank: streams have queues that credit bounds.
func (s *session) readFrames() {
	for {
		m, err := s.conn.Recv()
		if err != nil {
			s.postEvent(inputEndedEvent{err})
			return
		}
		s.postEvent(frameEvent{m})
		if _, last := m.(*wire.NextAttempt); last {
			return
		}
	}
}

// run is the one owner of the session's state: an event, a step, until nothing is
// left to do.
func (s *session) run(ctx context.Context) error {
	defer close(s.done)
	for !s.life.Done() {
		select {
		case event := <-s.events:
			s.handleEvent(event)
		case sig := <-s.sys.Signals:
			s.handleSignal(sig)
		case <-ctx.Done():
			s.endDisconnected(context.Cause(ctx))
			go s.conn.Close() // mpiexec shall hear of this first, not of what we end
			ctx = context.WithoutCancel(ctx)
		}
	}
	return s.endErr
}

func (s *session) handleEvent(event any) {
	switch e := event.(type) {
	case frameEvent:
		s.handleFrame(e.m)
	case inputEndedEvent:
		if !s.life.IsDisconnected() {
			s.endDisconnected(fmt.Errorf("mpiexec is gone: %w", e.err))
		}
	case linkDeadEvent:
		s.endDisconnected(fmt.Errorf("mpiexec has not been reachable for %v", e.silent))
	case claimedEvent:
		of := e.m.Supervision
		s.stepLifecycle(lifecycle.Claimed{Group: e.m.Group.Name, Rules: lifecycle.Rules{Grace: of.Grace, LeaveProcesses: of.LeaveChildren},
			Refused: e.Barred != "" || e.Taken != "", Payload: e})
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
		go s.conn.Close() // mpiexec shall hear of this first, not of what we end
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
		if e.PID == s.guard.pid { // somebody has killed it
			s.guard.closePipe()
		}
		if s.life.IsRank(e.PID) || !s.nonJob.removeReaped(e.PID) {
			s.stepLifecycle(e)
		}
	default:
		s.stepLifecycle(e)
	}
}

// stepLifecycle takes an event into the helper's life, and performs what that asks for.
func (s *session) stepLifecycle(event any) {
	for _, action := range s.life.Step(event, time.Now()) {
		s.perform(action)
	}
}

// endDisconnected ends the job because the other end is gone.
func (s *session) endDisconnected(why error) {
	s.endErr = why
	s.stepLifecycle(lifecycle.MpiexecLost{})
}

func (s *session) handleFrame(m wire.Message) {
	switch m := m.(type) {
	case *wire.LockDecision, *wire.UnlockDecision, *wire.Survey, *wire.Enqueue, *wire.Dequeue, *wire.WatchClaims, *wire.ListLedger, *wire.SignalJob, *wire.Overtake, *wire.Evict, *wire.ControlRequest, *wire.ControlReply, *wire.Ping:
		s.claims.HandleMessage(m)
	case *wire.Prepare:
		if m.Claim.Entry.IdleReason != "" {
			s.claims.Claim(m, func(a claims.ClaimResult) { s.postEvent(standbyClaimedEvent{claimedEvent{m, a}}) })
			return
		}
		s.stepLifecycle(lifecycle.Prepare{Group: m.Group.Name, Payload: m})
	case *wire.Diagnose, *wire.OpenProbePort, *wire.ProbePeers:
		s.examiner.HandleMessage(m)
	case *wire.CancelPrepare: // as a Prepare goes, to keep its place behind that
		s.claims.Release(m.Group, func() { s.postEvent(lifecycle.Released{Group: m.Group}) })
	case *wire.ReleaseClaims:
		s.claims.ReleaseCarried()
	case *wire.NextAttempt:
		s.claims.CarryOver(func(r claims.CarriedClaims) { s.postEvent(claimsCarriedEvent{r}) })
	case *wire.Start:
		s.claims.ReleaseCarried() // what the group needs is claimed
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

// feed gives several ranks the same piece of their input, which none of them changes.
func (s *session) feed(m *wire.StdinBroadcast) {
	for _, rank := range m.Ranks {
		if r := s.byRank[rank]; r != nil && r.stdin != nil {
			r.stdin.addPiece(&wire.Data{Rank: rank, Stream: wire.Stdin, Bytes: m.Bytes})
		}
	}
}

func (s *session) addCredit(m *wire.Credit) {
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
