//go:build linux

package helper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/checkup"
	"remshell/helper/claims"
	"remshell/helper/ipc"
	"remshell/helper/life"
	"remshell/helper/offer"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/stage"
	"remshell/helper/status"
	"remshell/helper/uplink"
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

	life  *life.State
	timer *time.Timer // of life's Wake; nil: there was none
	fault error       // why the conversation was over, when it was not a Bye

	rested claims.Rested // what the session of the next attempt goes on to claim; nil: there is none

	prepare *wire.Prepare // the first: what it says of the whole job holds for all
	judge   *offer.Judge
	groups  map[string]*group // those that are not over
	ranks   map[int]*process  // those of groups that were started, as life numbers them, until they are silent
	byRank  map[int]*process  // by number in the job: those, and nil for each that was one of them
	silent  []job.RankState   // what is kept of a rank that is over, and whose pipes have ended

	forks
	pmiLink
	services
	accounts
	ownSignals
	confined
	heldTurns
	left *ipc.Book // shared memory that ranks leave; nil: nobody cares, or it was freed

	cpus     int          // of this machine: one more than the highest number
	topology pin.Topology // does not change when it is known
}

// A forks is how ranks come up and are waited for.
type forks struct {
	starter      rank.Starter
	apart        bool          // each rank leads a session
	stopForking  *atomic.Bool  // the starter shall start no more
	hurry        chan struct{} // closed when the job is being ended
	moreChildren chan struct{} // the reaper may find children again
	guard        guard         // of a helper inside mpiexec, while something of the job lives
	minding      *time.Timer   // of the next look after it; nil: there was none
	held         *ledger.Held  // the claim that the guard is to keep; nil: none
}

// A pmiLink is what the PMI servers of this node have of mpiexec and of ranks.
type pmiLink struct {
	fences  *uplink.Fences
	fetches *uplink.Fetches
	notices *uplink.Notices
	texts   *uplink.Texts
	asked   *uplink.Questions
	port    *port     // nil: no rank wants it
	pmix    *pmixLink // nil: no rank is offered PMIx

	closing sync.WaitGroup // of what pmix was
	stays   staying        // of that
}

// Services are what does its work beside the ranks, on goroutines of its own.
type services struct {
	claims   *claims.Worker
	examiner *checkup.Examiner
	staging  *stage.Staging // nil: no files are to be staged
	socket   status.Socket
	marks    probe.Marks
	watched  *wire.Supervision // how the link to mpiexec is; nil: it is not
	pipes    *pipe.Pool        // what those of ranks may hold that write much
}

// What the goroutines around a session tell it, beside events of package life.
type (
	frameEvent  struct{ m wire.Message }
	inputEnded  struct{ err error }
	silentEvent struct{ r *process }
	forkedEvent struct {
		r *process
		rank.Process
		at     time.Time
		failed *rank.Error // it does not run; only r is set then
	}
	claimedEvent struct {
		m *wire.Prepare
		claims.Answer
	}
	guardDue     struct{}
	socketDue    struct{}
	stacksDone   struct{ states []job.RankState }
	statesWanted struct{ answer chan<- []job.RankState } // with room for one
	linkDead     struct{ silent time.Duration }
)

func newSession(c *wire.Conn, sys System, rested claims.Rested) *session {
	sys.Environ = rank.WithPath(sys.Environ)
	s := &session{
		conn:   c,
		sys:    sys,
		log:    logger{c},
		events: make(chan any, 64),
		done:   make(chan struct{}),
		life:   life.New(),
		judge:  offer.NewJudge(offer.Disk{}),
		groups: make(map[string]*group),
		ranks:  make(map[int]*process),
		byRank: make(map[int]*process),
		forks: forks{
			starter:      rank.NewStarter(),
			apart:        sys.apart(),
			stopForking:  new(atomic.Bool),
			hurry:        make(chan struct{}),
			moreChildren: make(chan struct{}, 1),
		},
		pmiLink:    pmiLink{fences: uplink.NewFences(c.Send), fetches: uplink.NewFetches(c.Send, c.Flush), notices: uplink.NewNotices(c.Send), texts: uplink.NewTexts(c.Send), asked: uplink.NewQuestions(c.Send)},
		accounts:   accounts{owners: newOwnership()},
		ownSignals: newOwnSignals(),
	}
	s.pipes = pipe.NewPool(widthAll)
	s.claims = claims.New(sys.Root, sys.Environ, c.Send, rested)
	s.examiner = checkup.New(checkup.Node{Root: sys.Root, Environ: sys.Environ, Now: sys.Now}, c.Send)
	return s
}

// tell gives run an event, unless run has returned.
func (s *session) tell(event any) {
	select {
	case s.events <- event:
	case <-s.done:
	}
}

// read is the reader of the connection. It sorts frames and never waits for a
// rank: streams have queues that credit bounds.
func (s *session) read() {
	for {
		m, err := s.conn.Recv()
		if err != nil {
			s.tell(inputEnded{err})
			return
		}
		s.tell(frameEvent{m})
		if _, last := m.(*wire.Renew); last {
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
			s.step(event)
		case sig := <-s.sys.Signals:
			s.caught(sig)
		case <-ctx.Done():
			s.lose(context.Cause(ctx))
			go s.conn.Close() // mpiexec shall hear of this first, not of what we end
			ctx = context.WithoutCancel(ctx)
		}
	}
	return s.fault
}

func (s *session) step(event any) {
	switch e := event.(type) {
	case frameEvent:
		s.frame(e.m)
	case inputEnded:
		if !s.life.Over() {
			s.lose(fmt.Errorf("mpiexec is gone: %w", e.err))
		}
	case linkDead:
		s.lose(fmt.Errorf("mpiexec has not been reachable for %v", e.silent))
	case claimedEvent:
		of := e.m.Supervision
		s.decide(life.Claimed{Group: e.m.Group.Name, Rules: life.Rules{Grace: of.Grace, Stay: of.Children},
			Refused: e.Barred != "" || e.Taken != "", Answer: e})
	case stagedEvent:
		s.staged(e)
	case forkedEvent:
		s.forked(e)
	case sampledEvent:
		s.sampled(e)
	case silentEvent:
		s.retire(e.r)
	case restedEvent:
		s.ceded(e)
	case spareEvent:
		s.spare(e)
	case standDue:
		s.tellRestless(e)
	case guardDue:
		s.mindGuard()
	case struck:
		s.lose(fmt.Errorf("got signal %d", e.number))
		go s.conn.Close() // mpiexec shall hear of this first, not of what we end
	case unanswered:
		s.decide(life.End{Grace: e.grace})
	case stacksDone:
		s.conn.Send(&wire.States{Ranks: e.states})
		s.decide(life.Dumped{})
	case socketDue:
		s.countDenied(true)
		s.openSocket()
	case statesWanted:
		e.answer <- s.states()
	case life.Reaped:
		if e.PID == s.guard.pid { // somebody has killed it
			s.guard.forget()
		}
		if s.life.IsRank(e.PID) || !s.foreign.gone(e.PID) {
			s.decide(e)
		}
	default:
		s.decide(e)
	}
}

// decide takes an event into the helper's life, and performs what that asks for.
func (s *session) decide(event any) {
	for _, action := range s.life.Step(event, time.Now()) {
		s.perform(action)
	}
}

// lose ends the job because the other end is gone.
func (s *session) lose(why error) {
	s.fault = why
	s.decide(life.Lost{})
}

func (s *session) frame(m wire.Message) {
	switch m := m.(type) {
	case *wire.Gate, *wire.Ungate, *wire.Survey, *wire.Enqueue, *wire.Dequeue, *wire.Watch, *wire.List, *wire.Alert, *wire.Pass, *wire.Evict, *wire.Ask, *wire.Answer, *wire.Ping:
		s.claims.Take(m)
	case *wire.Prepare:
		if m.Claim.Entry.Resting != "" {
			s.claims.Claim(m, func(a claims.Answer) { s.tell(spareEvent{claimedEvent{m, a}}) })
			return
		}
		s.decide(life.Prepare{Group: m.Group.Name, Needs: m})
	case *wire.Examine, *wire.Listen, *wire.ProbePeers:
		s.examiner.Take(m)
	case *wire.Release: // as a Prepare goes, to keep its place behind that
		s.claims.Release(m.Group, func() { s.tell(life.Released{Group: m.Group}) })
	case *wire.Yield:
		s.claims.Yield()
	case *wire.Renew:
		s.claims.Rest(func(r claims.Rested) { s.tell(restedEvent{r}) })
	case *wire.Start:
		s.claims.Yield() // what the group needs is claimed
		s.decide(life.Start{Group: m.Group, Rendezvous: m.Meet})
	case *wire.Prune:
		s.decide(life.Prune{Group: m.Group})
	case *wire.Stage:
		s.stage(m)
	case *wire.Piece:
		s.piece(m)
	case *wire.Data:
		if r := s.byRank[m.Rank]; r != nil && r.in != nil {
			r.in.push(m)
		}
	case *wire.Feed:
		s.feed(m)
	case *wire.Credit:
		s.credit(m)
	case *wire.Fenced:
		if s.fences.Deliver(m) {
			s.giveUp(m)
		}
	case *wire.Notify:
		s.tellEvent(m)
	case *wire.Notified:
		s.notices.Deliver(m)
	case *wire.Uttered:
		s.texts.Deliver(m)
	case *wire.Fetch:
		s.fetches.Asked(m, s.supply)
	case *wire.Fetched:
		s.fetches.Deliver(m)
	case *wire.Named:
		s.asked.Deliver(m.ID, m)
	case *wire.Posted:
		s.asked.Posted(m.Service)
	case *wire.Spawned:
		s.asked.Deliver(m.ID, m)
	case *wire.Peered:
		s.asked.Deliver(m.ID, m)
	case *wire.Dead:
		s.tellDead(m)
	case *wire.Over:
		if s.pmix != nil {
			s.pmix.server.Remove(m.Group)
		}
	case *wire.Resize:
		for _, r := range s.ranks {
			r.resize(unix.Winsize{Row: uint16(m.Rows), Col: uint16(m.Cols)})
		}
	case *wire.Signal:
		if !s.had(unix.Signal(m.Number)) {
			s.decide(life.Signal{Number: m.Number})
		}
	case *wire.Hold:
		if m.Why == job.HoldStopped {
			s.claims.Stopped(m.On)
		}
		s.decide(life.Hold{Why: m.Why, On: m.On})
	case *wire.Lay:
		s.conn.Send(&wire.Laid{Err: s.marks.Lay(m.Tag, m.Word)})
	case *wire.Seek:
		s.conn.Send(&wire.Sought{Words: probe.SeekMarks(m.Tag, wire.MaxMarks)})
	case *wire.Inspect:
		if m.Stacks {
			s.decide(life.Dump{})
			return
		}
		s.inspect()
	case *wire.End:
		s.decide(life.End{Linger: m.Linger, Grace: m.Grace})
	case *wire.Bye:
		s.decide(life.Bye{})
	default:
		s.log.warn("mpiexec sent %s: ignored", wire.NameOf(m))
	}
}

// feed gives several ranks the same piece of their input, which none of them changes.
func (s *session) feed(m *wire.Feed) {
	for _, rank := range m.Ranks {
		if r := s.byRank[rank]; r != nil && r.in != nil {
			r.in.push(&wire.Data{Rank: rank, Stream: wire.Stdin, Bytes: m.Bytes})
		}
	}
}

func (s *session) credit(m *wire.Credit) {
	r := s.byRank[m.Rank]
	if r == nil || r.out == nil {
		return
	}
	switch m.Stream {
	case wire.Stdout:
		r.out.grant(m.Bytes)
	case wire.Stderr:
		r.err.grant(m.Bytes)
	}
}
