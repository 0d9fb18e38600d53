//go:build linux

/*
Package helper is the far end: our process on a node. It probes the machine, starts
the ranks it is told to, carries their streams and signals, answers their PMI, and
ends everything when the job ends, however it ends.

	       mpiexec
	          |  frames (package wire)
	.---------+----------.
	|       reader       |  sorts frames, never waits
	|         |          |
	|      session  <----+--- starter: forked, or why not
	|    owns all state <+--- reaper: who ended, and how
	|         |     <----+--- link watch, timers
	'---------|----------'
	sources, sinks, PMI     one goroutine each per rank and stream

The life of a session is prepare, start, run, end; each is a method. A session
whose input ends before Bye ends its ranks: SIGTERM, grace, SIGKILL, orphans and
processes in sessions of their own included. Should the helper itself be killed,
the kernel kills the ranks (parent-death signal), and its keeper, which is the
parent of the helper and inherits all orphans, ends the rest.

The package reads no configuration and none of mpiexec's environment: all it needs
is in Prepare.
*/
package helper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/checkup"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/ledger"
	"remshell/proc"
	"remshell/wire"
)

// A System is the world as a helper sees it.
type System struct {
	Build   string   // identity of this binary
	Release string   // its version for people
	Root    fs.FS    // "/" of the node, for /proc and /sys
	Environ []string // the helper's own environment

	// Guard is set for a helper inside mpiexec, which has no keeper: the words by which
	// this program becomes its guard.
	Guard []string
	// Now is the clock of --doctor; nil: time.Now.
	Now func() time.Time
	// Terminal says that we have a controlling terminal, which no rank may have: it
	// would be stopped for touching it from the background.
	Terminal bool
}

// death is the signal that a rank gets when the helper dies. Without a keeper it only
// asks; the guard does the rest.
func (sys System) death() syscall.Signal {
	if sys.Guard != nil {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

// apart reports whether each rank leads a session. The kernel shares a CPU among sessions
// first (sched_autogroup): ranks that have one together get together as much of it as one busy
// process of somebody else. But PBS finds the processes of a job by their session; there ranks
// leave it only where they would be stopped for touching its terminal.
func (sys System) apart() bool {
	return sys.Terminal || job.Value(sys.Environ, "PBS_JOBID") == ""
}

const (
	// lastWords is how long the end of a rank waits for somebody to take the rest
	// of its output (IO-10).
	lastWords = 2 * time.Second
)

// ErrStay is the end of a session whose ranks may leave processes behind. A helper with a
// keeper then exits with StayCode, or the keeper would end them.
var ErrStay = errors.New("what ranks left behind may stay")

// StayCode is an exit code that no other end of a helper has.
const StayCode = 64

// Serve speaks on conn until the job is over or the other end is gone, and leaves
// no process behind. The error says why it was not over in the regular way.
func Serve(ctx context.Context, conn io.ReadWriteCloser, sys System) error {
	if err := proc.Adopt(); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Whoever started us may have left descriptors open; no rank may see them (IO-15).
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	host, _ := os.Hostname()
	c := wire.NewConn(conn, wire.Helper)
	if err := c.Announce(&wire.Hello{Version: wire.Version, Build: sys.Build, Release: sys.Release, Host: host, PID: os.Getpid()}); err != nil {
		return err
	}
	s := newSession(c, sys)
	s.probe()
	go s.read()
	err := s.run(ctx)
	s.starter.Close()
	s.clerk.close()
	s.staging.close()
	if s.port != nil {
		s.port.socket.Close()
	}
	s.examiner.Close()
	s.lectern.close()
	s.marks.Remove()
	s.guard.release()
	c.Close()
	if err == nil && s.mayStay() {
		return ErrStay
	}
	return err
}

// A session is the work of one helper. The goroutine of run owns all fields; the
// others send it events.
type session struct {
	conn    *wire.Conn
	sys     System
	log     logger
	events  chan any
	done    chan struct{} // closed when run returns: nobody takes events any more
	starter rank.Starter
	started time.Time

	apart   bool          // each rank leads a session
	cpus    int           // of this machine: one more than the highest number
	prepare *wire.Prepare // the first: what it says of the whole job holds for all
	groups  map[string]*group
	ranks   []*process // of all groups that were started
	byRank  map[int]*process
	byPID   map[int]*process
	fences  *fences
	asked   *questions
	port    *port // nil: no rank wants it
	clerk   *clerk

	examiner *checkup.Examiner
	staging  *staging // nil: no files are to be staged
	lectern  lectern
	marks    probe.Marks
	dumping  bool       // stacks are being gathered
	quit     bool       // SIGQUIT waits until they are
	foreign  foreigners // debuggers

	stopForking  *atomic.Bool  // the starter shall start no more
	hurry        chan struct{} // closed when the job is being ended
	moreChildren chan struct{} // the reaper may find children again

	held      *ledger.Held   // the claim that the guard is to keep; nil: none
	guard     guard          // of a helper inside mpiexec, while ranks run
	watching  bool           // the link to mpiexec is watched
	preparing map[string]int // groups that are, or will be, prepared and not started, and how often
	running   bool           // a Start was carried out
	forking   int            // groups at which the starter is at work
	reporting int            // ranks that were reaped and not yet reported
	failing   []*process     // those of them that failed, in the order of their ends
	childless bool           // no process of ours is left
	awaiting  bool           // for silent, since childless
	silent    bool           // and all that leftover children wrote is under way
	noise     int            // how often silence has begun to be waited for
	early     map[int]reapedEvent
	missed    []unix.Signal // signals that came while forking
	ending    *ending
	drained   bool // mpiexec was told that nothing is left
	owners    ownership
	peaks     rank.Peaks
	oomKills  int   // of our control group, before the job; -1: unknown
	over      bool  // the conversation is over, or the other end gone
	fault     error // why, when it was not a Bye
}

// What the goroutines around a session tell it.
type (
	frameEvent  struct{ m wire.Message }
	inputEnded  struct{ err error }
	forkedEvent struct {
		r *process
		rank.Process
		at     time.Time
		failed *rank.Error // it does not run; only r is set then
	}
	claimedEvent struct { // by the clerk, unless somebody was faster
		m      *wire.Prepare
		taken  *takenError
		held   *ledger.Held // nil: there is no claim
		notice string       // why not
		barred string       // why the administrator does not let it run; empty: he does
	}
	releasedEvent struct{ group string }
	forkingEnded  struct{}
	guardDue      struct{}
	lecternDue    struct{}
	statesWanted  struct{ answer chan<- []job.RankState } // with room for one
	reapedEvent   struct {
		pid    int
		group  int // of processes; 0: unknown
		status unix.WaitStatus
		used   unix.Rusage
		at     time.Time
	}
	childlessEvent struct{}
	silentEvent    struct{ noise int }
	slowEvent      struct{ noise int } // silence is long in coming
	lastWordsEvent struct{ r *process }
	tickEvent      struct{}
	linkDead       struct{ silent time.Duration }
)

func newSession(c *wire.Conn, sys System) *session {
	s := &session{
		conn:      c,
		sys:       sys,
		log:       logger{c},
		events:    make(chan any, 64),
		done:      make(chan struct{}),
		starter:   rank.NewStarter(),
		apart:     sys.apart(),
		groups:    make(map[string]*group),
		preparing: make(map[string]int),
		byRank:    make(map[int]*process),
		byPID:     make(map[int]*process),
		early:     make(map[int]reapedEvent),
		fences:    newFences(c.Send),
		asked:     newQuestions(c.Send),
		childless: true,
		owners:    newOwnership(),

		stopForking:  new(atomic.Bool),
		hurry:        make(chan struct{}),
		moreChildren: make(chan struct{}, 1),
	}
	s.clerk = newClerk(s)
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
	}
}

// run is the one owner of the session's state: an event, a step, until nothing is
// left to do.
func (s *session) run(ctx context.Context) error {
	defer close(s.done)
	for !s.over || !s.childless || s.forking > 0 {
		select {
		case event := <-s.events:
			s.step(event)
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
		if !s.over {
			s.lose(fmt.Errorf("mpiexec is gone: %w", e.err))
		}
	case linkDead:
		s.lose(fmt.Errorf("mpiexec has not been reachable for %v", e.silent))
	case claimedEvent:
		s.claimed(e)
	case stagedEvent:
		s.staged(e)
	case releasedEvent:
		s.release(e.group)
	case forkedEvent:
		s.forked(e)
	case forkingEnded:
		if s.forking--; s.forking == 0 {
			s.missed = nil
			for _, e := range s.early { // they were orphans
				s.owners.bury(e, s.ranks)
			}
			clear(s.early)
		}
		s.releaseGuard()
		s.leaveTheRest()
		s.lookForChildren()
	case guardDue:
		s.newGuard()
	case stacksDone:
		s.dumped(e.states)
	case lecternDue:
		s.openLectern()
	case statesWanted:
		e.answer <- s.states()
	case reapedEvent:
		s.reaped(e)
	case childlessEvent:
		if s.childless = s.forking == 0 && s.noneAlive(); s.childless {
			s.awaitSilence()
		}
	case silentEvent:
		s.silent = s.silent || e.noise == s.noise
		s.checkDrained()
	case slowEvent:
		if e.noise == s.noise { // else there are new ranks
			s.conn.Send(&wire.Emptied{})
		}
	case lastWordsEvent:
		s.lastSaid(e.r)
	case tickEvent:
		s.ending.tick(s)
	}
}

func (s *session) frame(m wire.Message) {
	switch m := m.(type) {
	case *wire.Gate, *wire.Ungate, *wire.Survey, *wire.Enqueue, *wire.Dequeue, *wire.Watch, *wire.List, *wire.Alert, *wire.Pass, *wire.Evict, *wire.Ping:
		s.book(m)
	case *wire.Prepare:
		s.preparing[m.Group.Name]++
		s.clerk.do(func() {
			if barred := s.clerk.allow(m); barred != "" {
				s.tell(claimedEvent{m: m, barred: barred})
				return
			}
			taken, notice := s.clerk.claim(m)
			s.tell(claimedEvent{m, taken, s.clerk.held[m.Group.Name], notice, ""})
		})
	case *wire.Examine, *wire.Listen, *wire.Knock:
		s.examiner.Take(m)
	case *wire.Release: // through the clerk as well, to keep its place behind a Prepare
		s.clerk.do(func() {
			s.clerk.release(m.Group)
			s.tell(releasedEvent{m.Group})
		})
	case *wire.Start:
		s.start(m.Group, m.Meet)
	case *wire.Prune:
		s.prune(m.Group)
	case *wire.Stage:
		s.stage(m)
	case *wire.Piece:
		s.piece(m)
	case *wire.Data:
		if r := s.byRank[m.Rank]; r != nil && r.in != nil {
			r.in.push(m)
		}
	case *wire.Credit:
		s.credit(m)
	case *wire.Fenced:
		s.fences.deliver(m)
	case *wire.Named:
		s.asked.deliver(m.ID, m)
	case *wire.Spawned:
		s.asked.deliver(m.ID, m)
	case *wire.Peered:
		s.asked.deliver(m.ID, m)
	case *wire.Resize:
		for _, r := range s.ranks {
			r.resize(unix.Winsize{Row: uint16(m.Rows), Col: uint16(m.Cols)})
		}
	case *wire.Signal:
		if s.dumping && unix.Signal(m.Number) == unix.SIGQUIT {
			s.quit = true
			return
		}
		s.signal(unix.Signal(m.Number))
	case *wire.Lay:
		s.conn.Send(&wire.Laid{Err: s.marks.Lay(m.Tag, m.Word)})
	case *wire.Seek:
		s.conn.Send(&wire.Sought{Words: probe.SeekMarks(m.Tag, wire.MaxMarks)})
	case *wire.Inspect:
		if m.Stacks {
			s.dump()
			return
		}
		s.inspect()
	case *wire.End:
		s.end(m.Linger, m.Grace)
	case *wire.Bye:
		s.over = true
		s.end(0, s.grace())
	default:
		s.log.warn("mpiexec sent %s: ignored", wire.NameOf(m))
	}
}

// book passes to the clerk what is about the ledger.
func (s *session) book(m wire.Message) {
	c := s.clerk
	if _, ok := m.(*wire.Ping); ok {
		c.hear()
	}
	c.do(func() {
		switch m := m.(type) {
		case *wire.Gate:
			c.enter(m)
		case *wire.Ungate:
			c.ungate()
		case *wire.Survey:
			c.survey(m)
		case *wire.Enqueue:
			c.enqueue(m)
		case *wire.Dequeue:
			c.dequeue()
		case *wire.Watch:
			c.watch(m)
		case *wire.List:
			c.list(m)
		case *wire.Alert:
			c.alert(m)
		case *wire.Pass:
			c.pass(m)
		case *wire.Evict:
			c.evict(m)
		case *wire.Ping: // all that wait may have become more
			c.tellPosition()
		}
	})
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

// lose ends the job because the other end is gone.
func (s *session) lose(why error) {
	s.over, s.fault = true, why
	for _, r := range s.ranks {
		r.forget()
	}
	s.fences.fail(why)
	s.asked.fail(why)
	s.end(0, s.grace())
}

func (s *session) grace() time.Duration {
	if s.prepare == nil {
		return 0
	}
	return s.prepare.Supervision.Grace
}

// probe tells what this machine is.
func (s *session) probe() {
	node, err := probe.Node(s.sys.Root, s.sys.Environ)
	s.cpus = node.Topology.Numbers()
	answer := &wire.Node{Probe: node}
	if err != nil {
		answer.Err = err.Error()
	}
	s.conn.Send(answer)
}

// A logger tells mpiexec what somebody may want to know of this helper.
type logger struct{ conn *wire.Conn }

func (l logger) warn(format string, args ...any) {
	l.conn.Send(&wire.Log{Warning: true, Text: fmt.Sprintf(format, args...)})
}

func (l logger) inform(format string, args ...any) {
	l.conn.Send(&wire.Log{Text: fmt.Sprintf(format, args...)})
}

// noneAlive reports whether every rank that was started has been reaped.
func (s *session) noneAlive() bool {
	for _, r := range s.ranks {
		if r.alive() {
			return false
		}
	}
	return true
}
