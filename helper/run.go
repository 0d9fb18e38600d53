//go:build linux

package helper

import (
	"context"
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/pmiserver"
	"remshell/proc"
	"remshell/wire"
)

// claimed goes on with a Prepare for which the clerk has made the claim.
func (s *session) claimed(e claimedEvent) {
	switch {
	case s.over || s.preparing[e.m.Group.Name] == 0:
	case e.barred != "":
		s.conn.Send(&wire.Refused{Group: e.m.Group.Name, Code: 125, Reason: "this node " + e.barred, Hint: "ask its administrator, or name other hosts"})
	case e.taken != nil:
		s.conn.Send(&wire.Taken{Group: e.m.Group.Name, Reason: e.taken.reason})
	default:
		if s.held == nil {
			s.held = e.held
		}
		s.accept(e.m, e.notice)
	}
}

// accept prepares what can fail before anything starts: working directories,
// programs, environments. The answer is Prepared or Refused.
func (s *session) accept(m *wire.Prepare, notice string) {
	if s.prepare == nil {
		s.prepare, s.started = m, time.Now()
		s.oomKills = probe.OOMKills(s.sys.Root)
		if !s.apart {
			s.log.inform("ranks stay in the session that mpiexec has here, by which PBS finds them (PBS_JOBID)")
		}
		rank.SoftLimits(m.Process.Soft).Adopt(func(text string) { s.log.inform("%s", text) })
		if m.Process.Umask >= 0 {
			unix.Umask(m.Process.Umask)
		}
	}
	g, refused := s.newGroup(m)
	if refused != nil {
		s.conn.Send(&wire.Refused{Group: m.Group.Name, Code: refused.Code, Reason: refused.Reason, Hint: refused.Hint})
		return
	}
	s.groups[m.Group.Name] = g
	if !s.watching {
		s.watching = true
		watchLink(s.sys, m.Supervision.Silence, s)
	}
	s.conn.Send(&wire.Prepared{Group: m.Group.Name, Notice: notice, Meet: g.rendezvous})
}

// release forgets a Prepare: the job was planned anew, or what was to be spawned was not.
func (s *session) release(name string) {
	if s.preparing[name]--; s.preparing[name] <= 0 {
		delete(s.preparing, name)
	}
	if g := s.groups[name]; g != nil {
		if g.started {
			return
		}
		g.freeRendezvous()
		delete(s.groups, name)
	}
	if !s.running {
		s.prepare, s.held = nil, nil
	}
	s.checkDrained()
}

// start lets the starter fork all ranks of a group, in order, on its own thread. Between
// two of them it looks whether they are to be ended already.
func (s *session) start(name, rendezvous string) {
	delete(s.preparing, name)
	g := s.groups[name]
	if g == nil || g.started {
		return
	}
	g.started, g.rendezvous = true, rendezvous
	g.freeRendezvous()
	s.add(g)
	if !s.running {
		s.running = true
		go s.reap()
	}
	s.forking++
	s.childless, s.awaiting, s.silent, s.drained = false, false, false, false
	s.noise++
	unstaged := s.settleStage(g)
	commands := make([]rank.Command, len(g.ranks))
	for i, r := range g.ranks {
		commands[i] = s.command(r)
	}
	b, soft := s.newBinder(), rank.SoftLimits(s.prepare.Process.Soft)
	if s.prepare.Supervision.Peaks {
		s.peaks.Begin(s.done)
	}
	limits := soft.Lend(s.sys.Guard != nil)
	go func() {
		s.starter.Do(func() {
			defer b.Restore()
			for i, r := range g.ranks {
				if s.stopForking.Load() {
					break
				}
				if g.pruned.Load() {
					s.tell(forkedEvent{r: r, failed: errPruned})
					continue
				}
				if unstaged != nil {
					s.tell(forkedEvent{r: r, failed: unstaged})
					continue
				}
				at := time.Now()
				born, failed := commands[i].Start(b, limits)
				if failed == nil {
					soft.Give(born.PID)
					s.peaks.Watch(born.PID, born.Floor)
				}
				s.tell(forkedEvent{r, born, at, failed})
			}
		})
		s.tell(forkingEnded{})
	}()
	time.AfterFunc(lecternDelay, func() { s.tell(lecternDue{}) })
	if s.sys.Guard != nil {
		time.AfterFunc(guardDelay, func() { s.tell(guardDue{}) })
	}
}

// newBinder makes what binds the ranks.
func (s *session) newBinder() *rank.Binder {
	return rank.NewBinder(func(text string) { s.log.warn("%s", text) },
		func() []int { return probe.AllowedMemory(s.sys.Root) })
}

// newGuard starts the guard of a helper inside mpiexec, if there still is anything to
// guard.
func (s *session) newGuard() {
	if s.guard.pid != 0 || s.forking == 0 && s.noneAlive() {
		return
	}
	g, err := startGuard(s.sys.Guard, s.held)
	if err != nil {
		s.log.warn("no guard: if mpiexec is killed, ranks may survive it: %v", err)
	}
	s.guard, s.owners.guard = g, g.pid
}

// releaseGuard lets the guard go when the last rank has ended. It is a child of ours, and
// the job is over only when there is none.
func (s *session) releaseGuard() {
	if s.forking == 0 && s.noneAlive() {
		if s.guard.pid != 0 {
			s.staging.unlink()
		}
		s.guard.release()
	}
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
		Iface: m.Node.Iface, Compat: m.Process.Compat, Rendezvous: r.group.rendezvous, Ledger: m.Claim.Ledger, Stage: s.staging.dir(),
		Rank: r.plan.Rank, Local: r.plan.Local, Locals: len(m.Ranks), App: r.plan.App,
		Slots: r.plan.Slots, AllSlots: m.Node.Slots, AllCPUs: s.cpus,
		GPUs: r.plan.GPUs, NoGPUs: m.Apps[r.plan.App].GPUs == job.NoGPUs,
	}
	if r.tcp != nil {
		id.Port, id.ID = s.port.socket.Addr().String(), r.id
	}
	return id
}

// command is what a rank is started from.
func (s *session) command(r *process) rank.Command {
	m := r.group.prepare
	return rank.Command{
		Path: r.path, Argv: r.argv, Env: r.env, Identity: s.identity(r), Dir: r.dir,
		CPUs: r.plan.CPUs, Mems: r.plan.Mems, MemMode: r.plan.MemMode,
		Stdin: r.in != nil, Merge: m.Streams.Merge, Terminal: r.tty, Window: unix.Winsize{Row: uint16(m.Streams.Rows), Col: uint16(m.Streams.Cols)}, NoPMI: r.tcp != nil,
		Session: s.apart, Death: s.sys.death(),
	}
}

// forked notes that a rank runs, or that it does not.
func (s *session) forked(e forkedEvent) {
	r := e.r
	if e.failed != nil {
		s.lessen(r.group)
		s.conn.Send(&wire.Started{Rank: r.number, Code: e.failed.Code, Err: e.failed.Reason, Hint: e.failed.Hint})
		return
	}
	r.pid, r.started, r.floor = e.PID, e.at, e.Floor
	s.byPID[r.pid] = r
	s.owners.groups[r.pid] = r.number
	news := wire.Started{Rank: r.number, PID: r.pid}
	if s.prepare.Supervision.Report {
		news.CPUs, news.Mems = e.CPUs, e.Mems
	}
	s.conn.Send(&news)
	close(r.born)
	s.catchUp(r)
	r.attach(e.Pipes, r.group.window(), s.conn.Send)
	if conn, ok := r.pmi.(*pmiConn); ok {
		go s.servePMI(r, conn)
	}
	if s.over {
		r.forget()
	}
	if end, ended := s.early[r.pid]; ended {
		delete(s.early, r.pid)
		if !end.at.Before(e.at) { // or it was of another process of that number
			s.reaped(end)
		}
	}
	s.lookForChildren()
}

// catchUp gives a new rank the signals that came while it was being forked.
func (s *session) catchUp(r *process) {
	for _, number := range s.missed {
		unix.Kill(s.target(r), number)
	}
	if s.ending != nil && s.ending.phase == asked {
		unix.Kill(-r.pid, unix.SIGTERM)
	}
	if r.group.pruned.Load() {
		unix.Kill(-r.pid, unix.SIGKILL)
	}
}

// lookForChildren tells the reaper that there may be children again.
func (s *session) lookForChildren() {
	select {
	case s.moreChildren <- struct{}{}:
	default:
	}
}

// servePMI answers one rank until its connection ends.
func (s *session) servePMI(r *process, conn *pmiConn) {
	defer conn.Close()
	s.hungUp(r, r.group.pmi.Serve(context.Background(), r.plan.Rank, conn))
}

// hungUp tells how a rank's PMI connection has ended, unless it is as it should be.
func (s *session) hungUp(r *process, err error) {
	news, word := wire.PMI{Rank: r.number}, "CLOSED"
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
	case errors.As(err, &junk):
		news.Event, news.Text, word = wire.PMIJunk, err.Error(), "DIE"
	default:
		news.Event, news.Text, word = wire.PMILost, err.Error(), "LOST"
	}
	s.trace(r, "< EOF")
	s.trace(r, "> "+word)
	if err != nil {
		s.say(r, &news)
	}
}

// say passes on news of a rank, which come between that it runs and that it has ended: what
// is left of it may go on to speak, but not for it (TRUST-4).
func (s *session) say(r *process, m wire.Message) {
	select {
	case <-r.born:
	case <-s.done:
		return
	}
	r.talk.Lock()
	defer r.talk.Unlock()
	if !r.ended {
		s.conn.Send(m)
	}
}

// trace passes on what a rank and its server say, if that is wanted (--pmi-trace).
func (s *session) trace(r *process, line string) {
	if r.group.prepare.PMI.Trace {
		s.conn.Send(&wire.Trace{Rank: r.number, Line: line})
	}
}

// reap waits for children until none is left, first ranks, in the end orphans. It
// is the only one that waits, so it sees each end exactly once.
func (s *session) reap() {
	for {
		var e reapedEvent
		pid, err := proc.AwaitEnd()
		if err == nil {
			e.at = time.Now()
			look, _ := proc.LookAt(pid)
			e.group = look.Group
			if e.pid, err = unix.Wait4(pid, &e.status, 0, &e.used); err == unix.ECHILD {
				continue // the starter has reaped what could not exec
			}
		}
		switch {
		case err == nil:
			s.tell(e)
		case err == unix.ECHILD:
			s.tell(childlessEvent{})
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

// reaped notes the end of a child. A rank may end before the starter has told that
// it began; then the news waits.
func (s *session) reaped(e reapedEvent) {
	r := s.byPID[e.pid]
	if r == nil && s.foreign.gone(e.pid) {
		return
	}
	if r == nil {
		if s.forking > 0 { // it may be a rank
			s.early[e.pid] = e
		} else {
			s.owners.bury(e, s.ranks)
		}
		return
	}
	delete(s.byPID, e.pid)
	r.reaped(e.status, e.used, s.peaks.Forget(r.pid), e.at)
	r.exit.Asked = (s.ending.hadAsked(e.at) || r.group.pruned.Load()) && !r.dying
	r.exit.Hint = s.hint(r.exit)
	s.releaseGuard()
	s.leaveTheRest()
	s.reporting++
	if r.exit.Status() != 0 {
		s.failing = append(s.failing, r)
	}
	r.lastWords(s.hurry, func() { s.tell(lastWordsEvent{r}) })
}

// leaveTheRest waits for nobody any more when all ranks have ended, if what they left
// behind may stay.
func (s *session) leaveTheRest() {
	if s.mayStay() && s.forking == 0 && s.noneAlive() {
		s.childless = true
		s.awaitSilence()
	}
}

// lastSaid notes that all that a rank wrote is under way, and reports its end.
// Failures are reported in the order of the ends: a rank that fails because another
// did, and has less to say, must not look like the first (EXIT-2).
func (s *session) lastSaid(r *process) {
	r.said = true
	if r.exit.Status() == 0 {
		s.report(r)
	}
	for len(s.failing) > 0 && s.failing[0].said {
		s.report(s.failing[0])
		s.failing = s.failing[1:]
	}
	s.checkDrained()
}

// report tells mpiexec of a rank's end, unless the conversation is over: what ranks
// then die of is our doing.
func (s *session) report(r *process) {
	s.reporting--
	r.exit.PMI = job.PMIState(r.pmiState.Load())
	if r.exit.PMI == job.PMINever && r.plan.Rank == 0 && r.group.prepare.Group.Size > 1 {
		r.exit.Built = rank.BuiltFor(r.path)
	}
	r.group.pmi.Exited(r.plan.Rank)
	r.talk.Lock()
	r.ended = true
	if !s.over {
		s.conn.Send(&wire.Exited{Exit: *r.exit})
	}
	r.talk.Unlock()
	s.lessen(r.group)
}

// target is whom a signal for a rank goes to: its process group, or the rank alone
// (SIG-6).
func (s *session) target(r *process) int {
	if s.prepare.Supervision.Leader {
		return r.pid
	}
	return -r.pid
}

// signal sends a signal to every living rank.
func (s *session) signal(number unix.Signal) {
	if s.forking > 0 {
		s.missed = append(s.missed, number)
	}
	for _, r := range s.ranks {
		if !r.alive() {
			continue
		}
		if err := unix.Kill(s.target(r), syscall.Signal(number)); err != nil && err != unix.ESRCH {
			s.log.warn("rank %d: signal %d: %v", r.number, number, err)
		}
	}
}
