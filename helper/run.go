//go:build linux

package helper

import (
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/ipc"
	"remshell/helper/life"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/sample"
	"remshell/helper/status"
	"remshell/job"
	"remshell/limit"
	"remshell/mpifault"
	"remshell/proc"
	"remshell/wire"
)

// refuse tells mpiexec why a group is not prepared.
func (s *session) refuse(e claimedEvent) {
	if e.Taken != "" {
		s.conn.Send(&wire.Taken{Group: e.m.Group.Name, Reason: e.Taken})
		return
	}
	s.conn.Send(&wire.Refused{Group: e.m.Group.Name, Code: job.ExitInternal, Reason: "this node " + e.Barred, Hint: "ask its administrator, or name other hosts"})
}

// accept prepares what can fail before anything starts: working directories,
// programs, environments. The answer is Prepared or Refused.
func (s *session) accept(a life.Accept) {
	e := a.Answer.(claimedEvent)
	if s.held == nil {
		s.held = e.Held
	}
	refused := s.restrict(e.m)
	if a.First {
		s.begin(e.m)
	}
	var g *group
	if refused == nil {
		g, refused = s.newGroup(e.m)
	}
	if refused != nil {
		s.closeUnwantedPMIx(nil)
		s.conn.Send(&wire.Refused{Group: a.Group, Code: refused.Code, Reason: refused.Reason, Hint: refused.Hint})
		return
	}
	s.groups[a.Group] = g
	s.decide(life.Ready{Group: a.Group, Ranks: len(g.ranks)})
	s.watchOver(&e.m.Supervision)
	s.conn.Send(&wire.Prepared{Group: a.Group, Notice: e.Notice, Meet: g.rendezvous})
}

// begin takes in what the first Prepare says of the whole job.
func (s *session) begin(m *wire.Prepare) {
	s.prepare = m
	if when := m.Supervision.CleanIPC; when != "no" && s.left == nil {
		s.left = ipc.NewBook(when == "always")
	}
	s.countDenied(false)
	if !s.apart {
		by := s.sys.sessions()
		s.log.inform("ranks stay in the session that mpiexec has here, by which %s finds them (%s)", by.Title, by.Variable)
	}
	rank.Without(m.Process.Soft, m.Process.Bounds).Adopt(func(text string) { s.log.inform("%s", text) })
	if m.Process.Umask >= 0 {
		unix.Umask(m.Process.Umask)
	}
}

// fork lets the starter fork all ranks of a group, in order, on its own thread.
func (s *session) fork(a life.Fork) {
	g := s.groups[a.Group]
	g.rendezvous = a.Rendezvous
	g.freeRendezvous()
	s.add(g, a.First)
	unstaged := s.settleStage(g)
	if unstaged == nil {
		s.loosen(g)
		for _, r := range g.ranks {
			s.complete(r)
		}
	}
	if s.prepare.Supervision.Peaks {
		s.peaks.Begin(s.done)
	}
	if s.began.IsZero() {
		s.began = time.Now()
	}
	if (s.prepare.Supervision.Samples || len(s.own) > 0) && s.book == nil {
		s.book = new(sample.Book)
		of := s.prepare.Supervision
		go s.sample(job.SampleEvery(of.Often || len(s.own) > 0), s.own[limit.HostMem])
	}
	batch := forkBatch{ranks: g.ranks, binder: s.newBinder(g), soft: rank.Without(s.prepare.Process.Soft, s.prepare.Process.Bounds), cannot: unstaged}
	batch.limits = batch.soft.Lend(s.sys.Guard != nil)
	go func() {
		s.starter.Do(func() { s.forkAll(batch) })
		s.tell(life.ForkingEnded{})
	}()
	time.AfterFunc(status.Delay, func() { s.tell(socketDue{}) })
	if s.sys.Guard != nil {
		s.mindGuardIn(guardDelay)
	}
}

// A forkBatch is what the starter needs to fork the ranks of a group.
type forkBatch struct {
	ranks  []*process
	binder *rank.Binder
	soft   rank.SoftLimits
	limits []rank.Lent
	cannot *rank.Error // why none of them can start; nil: they can
}

// forkAll forks on the starter's thread. Between two ranks it looks whether they are to be
// ended already.
func (s *session) forkAll(b forkBatch) {
	defer b.binder.Restore()
	for _, r := range b.ranks {
		if s.stopForking.Load() {
			return
		}
		failed := b.cannot
		if r.group.pruned.Load() {
			failed = errPruned
		}
		if failed != nil {
			s.tell(forkedEvent{r: r, failed: failed})
			continue
		}
		at := time.Now()
		born, failed := r.command.Start(b.binder, b.limits)
		if failed == nil {
			b.soft.Give(born.PID)
			s.peaks.Watch(born.PID, born.Floor)
		}
		s.tell(forkedEvent{r, born, at, failed})
	}
}

// newBinder makes what binds the ranks of a group.
func (s *session) newBinder(g *group) *rank.Binder {
	return rank.NewBinder(g.prepare.Process.Bound, func(text string) { s.log.warn("%s", text) },
		func() []int { return probe.AllowedMemory(s.sys.Root) })
}

// address is where peers on other nodes reach this one: what mpiexec says, else the
// address at which sshd was reached. A host's own name often leads to 127.0.1.1, and the
// user's name for it may exist in an ssh configuration only.
func (s *session) address(m *wire.Prepare) string {
	if m.Node.Address != "" || m.Node.Alone {
		return m.Node.Address
	}
	local, _, ok := probe.SSHConnection(s.sys.Environ)
	if !ok || local.Addr().IsLoopback() {
		return ""
	}
	return local.Addr().String()
}

// identity is what a rank is told of itself.
func (s *session) identity(r *process) rank.Identity {
	m := r.group.prepare
	id := rank.Identity{
		Job: m.Job, Size: m.Group.Size, Nodes: m.Group.Nodes, Node: m.Node.Index, Host: m.Node.Name, Address: r.group.address, Spawned: m.Group.First > 0,
		Iface: m.Node.Iface, Compat: m.Process.Compat, Rendezvous: r.group.rendezvous, Ledger: m.Claim.Ledger, Stage: s.staging.Dir(),
		Rank: r.plan.Rank, Local: r.plan.Local, Locals: len(m.Ranks), App: r.plan.App, Earlier: m.Node.Earlier,
		Slots: r.plan.Slots, AllSlots: m.Node.Slots, AllCPUs: s.cpus,
		Offer: r.offered(), PMIx: r.group.pmix, GPUs: r.plan.GPUs, NoGPUs: m.Apps[r.plan.App].GPUs == job.NoGPUs,
		Places: m.Process.Places,
	}
	if r.tcp != nil {
		id.Port, id.ID = s.port.socket.Addr().String(), r.id
	}
	return id
}

// complete adds to a rank's command what is known when it starts.
func (s *session) complete(r *process) {
	m, c := r.group.prepare, &r.command
	c.Identity = s.identity(r)
	c.Env = s.compose(r)
	c.CPUs, c.Mems, c.MemMode = r.plan.CPUs, r.plan.Mems, r.plan.MemMode
	c.Stdin, c.Merge, c.NoPMI = r.in != nil, m.Streams.Merge, r.tcp != nil || !r.offered().PMI()
	c.Window = unix.Winsize{Row: uint16(m.Streams.Rows), Col: uint16(m.Streams.Cols)}
	if r.offered().PMIx() {
		c.Slack = r.group.pmix.Slack()
	}
	c.Session, c.Death = s.apart && !s.together(r), s.sys.death()
}

// forked takes in what came of a fork.
func (s *session) forked(e forkedEvent) {
	r := e.r
	if e.failed != nil {
		s.decide(life.NotForked{Rank: r.index})
		s.conn.Send(&wire.Started{Rank: r.number, Code: e.failed.Code, Err: e.failed.Reason, Hint: e.failed.Hint})
		return
	}
	r.begun, r.started = e.Process, e.at
	s.decide(life.Forked{Rank: r.index, PID: e.PID, At: e.at})
}

// announce tells mpiexec that a rank runs, and carries its streams.
func (s *session) announce(r *process) {
	s.owners.groups[r.begun.PID] = r.number
	s.tellGuard(ofRank{PID: uint32(r.begun.PID)})
	news := wire.Started{Rank: r.number, PID: r.begun.PID, Loosened: r.loosened}
	if s.prepare.Supervision.Report {
		news.CPUs, news.Mems = r.begun.CPUs, r.begun.Mems
	}
	s.conn.Send(&news)
	r.attach(r.group.window(), s.pipes, s.conn.Send)
	close(r.born)
	if conn, ok := r.pmi.(*pmiConn); ok {
		go s.servePMI(r, conn)
	}
}

// reap waits for children until none is left, first ranks, in the end orphans. It
// is the only one that waits, so it sees each end exactly once.
func (s *session) reap() {
	for {
		e, err := reapOne()
		switch {
		case err == nil:
			s.tell(e)
		case err == unix.ECHILD:
			s.tell(life.NoChildren{})
			select {
			case <-s.done:
				return
			case <-s.moreChildren:
			}
		case err != unix.EINTR:
			s.log.warn("wait for ranks: %v", err)
			return
		}
	}
}

// reapOne waits for the end of a child.
func reapOne() (e life.Reaped, err error) {
	pid, err := proc.AwaitEnd()
	if err != nil {
		return e, err
	}
	e.At = time.Now()
	look, _ := proc.LookAt(pid)
	limits := limitsOf(pid)
	var status unix.WaitStatus
	var used unix.Rusage
	if e.PID, err = unix.Wait4(pid, &status, 0, &used); err == unix.ECHILD {
		return e, unix.EINTR // the starter has reaped what could not exec
	}
	e.Group, e.Began, e.Exit.Usage = look.Group, look.Born.Time(), usageOf(&used)
	if status.Signaled() {
		e.Exit.Signal, e.Exit.Core = int(status.Signal()), status.CoreDump()
	} else {
		e.Exit.Code = status.ExitStatus()
	}
	e.Exit.Hint = limits.exceeded(e.Exit)
	return e, err
}

// note takes down how a rank has ended, and waits for its last words.
func (s *session) note(a life.Note) {
	r := s.ranks[a.Rank]
	r.note(a.Exit, s.peaks.Forget(r.begun.PID), a.At)
	s.tellGuard(ofRank{PID: uint32(r.begun.PID), Ended: uint64(proc.Now())})
	s.book.Reaped(r.begun.PID, r.number, r.exit.Usage.CPU())
	s.left.Ended(ipc.Process{PID: r.begun.PID, Rank: r.number, Began: a.Began, Leader: true}, a.At)
	if r.exit.Status() != 0 {
		s.left.Look(s.members)
	}
	r.exit.Asked = a.Asked && !r.dying
	r.exit.Hint = s.hint(r.exit)
	r.lastWords(s.hurry, func() { s.tell(life.LastWords{Rank: a.Rank}) })
}

// report ends a rank, and tells mpiexec if it is to hear of it.
func (s *session) report(r *process, tell bool) {
	r.exit.PMI = job.PMIState(r.pmiState.Load())
	if r.in != nil {
		r.exit.Input = r.in.consumed()
	}
	if r.exit.PMI == job.PMINever && r.plan.Rank == 0 && r.group.prepare.Group.Size > 1 {
		r.exit.Built, r.exit.Offer = s.builtFor(r), r.offered()
	}
	r.exit.Barrier, r.exit.Fault = s.waited(r)
	s.left.Judged(r.number, r.exit.Status() == 0 && !r.exit.Asked && r.exit.PMI != job.PMIOpen && r.exit.PMI != job.PMIAborted)
	r.group.pmi.Exited(r.plan.Rank)
	if s.pmix != nil {
		s.pmix.server.Exited(r.group.prepare.Group.Name, r.plan.Rank)
	}
	r.talk.Lock()
	r.ended = true
	if tell {
		s.conn.Send(&wire.Exited{Exit: *r.exit})
	}
	r.talk.Unlock()
}

// noteBarrier notes in which barrier a rank waits, before a signal ends it.
func (r *process) noteBarrier() {
	if r.exit == nil {
		r.barrier = max(r.barrier, r.group.pmi.Barrier(r.plan.Rank))
	}
}

// waited says of a rank that was ended in a barrier which fault of its library may have held it there.
func (s *session) waited(r *process) (barrier int, fault string) {
	o := r.group.offers[r.plan.App]
	if r.barrier == 0 || r.exit.Status() == 0 || r.exit.PMI != job.PMIOpen || o == nil {
		return 0, ""
	}
	library := o.MPI
	if library.Family == "" { // --pmi said what is offered
		library = s.judgeProgram(r).MPI
	}
	for _, f := range mpifault.Of(library) {
		if f.Code == mpifault.Finalize {
			fault = f.Code
		}
	}
	return r.barrier, fault
}

// pass sends a signal of the user to a rank: to its process group, or to the rank alone (SIG-6).
func (s *session) pass(r *process, number unix.Signal) {
	r.noteBarrier()
	target := -r.begun.PID
	if s.prepare.Supervision.Leader {
		target = r.begun.PID
	}
	if err := unix.Kill(target, number); err != nil && err != unix.ESRCH {
		s.log.warn("rank %d: signal %d: %v", r.number, number, err)
	}
}
