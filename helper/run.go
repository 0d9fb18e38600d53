//go:build linux

package helper

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/pmiserver"
	"remshell/proc"
	"remshell/wire"
)

// claimed goes on with a Prepare for which the clerk has made the claim.
func (s *session) claimed(e claimedEvent) {
	switch {
	case s.over:
	case e.taken != nil:
		s.conn.Send(&wire.Taken{Reason: e.taken.reason})
	default:
		s.accept(e.m, e.notice)
	}
}

// forget drops a Prepare: the job was planned anew.
func (s *session) forget() {
	if s.running {
		return
	}
	s.prepare, s.ranks, s.pmi = nil, nil, nil
	clear(s.byRank)
}

// accept prepares what can fail before anything starts: working directories,
// programs, environments. The answer is Prepared or Refused.
func (s *session) accept(m *wire.Prepare, notice string) {
	s.prepare = m
	s.started = time.Now()
	s.oomKills = oomKills(s.sys.Root)
	softLimits(m.Soft).adopt(func(text string) { s.log.Info().Msg(text) })
	if m.Umask >= 0 {
		unix.Umask(m.Umask)
	}
	for _, plan := range m.Ranks {
		app := m.Apps[plan.App]
		r := &rank{plan: plan, argv: app.Argv, dir: app.Dir}
		if slices.Contains(m.Stdin, plan.Rank) {
			r.in = newSink(plan.Rank, s.conn.Send)
		}
		if refused := s.place(r, m.Base, app); refused != nil {
			s.conn.Send(&wire.Refused{Code: refused.code, Reason: refused.reason, Hint: refused.hint})
			return
		}
		s.ranks = append(s.ranks, r)
		s.byRank[plan.Rank] = r
	}
	s.pmi = s.newPMI(m)
	if !s.watching {
		s.watching = true
		watchLink(s.sys, m.Silence, s)
	}
	s.conn.Send(&wire.Prepared{Notice: notice})
}

// place finds the rank's directory, environment and program; the ranks of an app
// share them.
func (s *session) place(r *rank, base job.Env, app job.App) *startError {
	for _, other := range s.ranks {
		if other.plan.App == r.plan.App {
			r.path, r.dir, r.env = other.path, other.dir, other.env
			return nil
		}
	}
	if !filepath.IsAbs(r.dir) { // the login directory, as with the remote shells of old
		r.dir = filepath.Join(value(s.sys.Environ, "HOME"), r.dir)
	}
	if refused := enterable(r.dir); refused != nil {
		return refused
	}
	r.env = appEnv(s.sys.Environ, s.existing(base), s.existing(app.Env), r.dir)
	path, refused := locate(r.argv[0], r.dir, app.Path, value(r.env, "PATH"))
	r.path = path
	return refused
}

// newPMI makes the server that answers this node's ranks.
func (s *session) newPMI(m *wire.Prepare) *pmiserver.Server {
	info := pmiserver.Info{Name: string(m.Job), Size: m.Size, Mapping: m.Mapping}
	apps := make(map[int]int)
	for _, r := range m.Ranks {
		info.Ranks = append(info.Ranks, r.Rank)
		apps[r.Rank] = r.App
	}
	info.AppNum = func(rank int) int { return apps[rank] }
	var fencer pmiserver.Fencer // nil: nobody else to meet
	if m.Nodes > 1 {
		fencer = s.fences
	}
	server := pmiserver.New(info, fencer)
	server.Abort = func(rank, code int, message string) {
		s.conn.Send(&wire.PMI{Rank: rank, Event: wire.PMIAborted, Code: code, Text: message})
	}
	server.Broken = func(err error) {
		s.conn.Send(&wire.PMI{Rank: -1, Event: wire.PMIBroken, Text: err.Error()})
	}
	server.Aborting = func(rank int) { s.byRank[rank].pmiState.Store(int32(job.PMIAborted)) }
	server.Changed = func(rank int, _, to pmiserver.State) {
		switch to {
		case pmiserver.Inited:
			s.byRank[rank].pmiState.Store(int32(job.PMIOpen))
		case pmiserver.Finalized:
			s.byRank[rank].pmiState.Store(int32(job.PMIFinalized))
		}
	}
	server.Names = names{s.asked}
	server.Note = func(rank int, text string) { s.log.Warn().Msgf("rank %d: pmi: %s", rank, text) }
	return server
}

// start lets the starter fork all ranks, in order, on its own thread. Between two
// of them it looks whether the job is ending already.
func (s *session) start() {
	if s.running || s.prepare == nil {
		return
	}
	s.running, s.forking, s.childless = true, true, false
	stop := s.stopForking
	ranks := slices.Clone(s.ranks)
	places := make([]place, len(ranks))
	for i, r := range ranks {
		places[i] = s.where(r)
	}
	b, soft := s.newBinder(), softLimits(s.prepare.Soft)
	go func() {
		s.starter.do(func() {
			defer b.restore()
			for i, r := range ranks {
				if stop.Load() {
					break
				}
				at := time.Now()
				born, failed := r.fork(places[i], s.sys, b)
				soft.give(born.pid)
				s.tell(forkedEvent{r, born, at, failed})
			}
		})
		s.tell(forkingEnded{})
	}()
	go s.reap()
	if s.sys.Guard != nil {
		time.AfterFunc(guardDelay, func() { s.tell(guardDue{}) })
	}
}

// newBinder makes what binds the ranks.
func (s *session) newBinder() *binder {
	return &binder{
		kernel:     thisKernel(),
		warn:       func(text string) { s.log.Warn().Msg(text) },
		everywhere: func() []int { return allowedMemory(s.sys.Root) },
	}
}

// newGuard starts the guard of a helper inside mpiexec, if there still is anything to
// guard.
func (s *session) newGuard() {
	if !s.forking && s.noneAlive() {
		return
	}
	g, err := startGuard(s.sys.Guard)
	if err != nil {
		s.log.Warn().Err(err).Msg("no guard: if mpiexec is killed, ranks may survive it")
	}
	s.guard, s.owners.guard = g, g.pid
}

// releaseGuard lets the guard go when the last rank has ended. It is a child of ours, and
// the job is over only when there is none.
func (s *session) releaseGuard() {
	if !s.forking && s.noneAlive() {
		s.guard.release()
	}
}

// address is where peers on other nodes reach this one: what mpiexec says, else the
// address at which sshd was reached. A host's own name often leads to 127.0.1.1, and the
// user's name for it may exist in an ssh configuration only.
func (s *session) address() string {
	if s.prepare.Address != "" || s.prepare.Nodes < 2 {
		return s.prepare.Address
	}
	local, _, ok := sshConnection(value(s.sys.Environ, "SSH_CONNECTION"))
	if !ok || local.Addr().IsLoopback() {
		return ""
	}
	return local.Addr().String()
}

func (s *session) where(r *rank) place {
	m := s.prepare
	return place{
		job: m.Job, size: m.Size, nodes: m.Nodes, node: m.Index, host: m.Name, address: s.address(),
		merge: m.Merge, rank: r.plan.Rank, local: r.plan.Local, locals: len(m.Ranks), app: r.plan.App,
		slots: r.plan.Slots, allSlots: m.Slots, allCPUs: s.cpus,
	}
}

// forked notes that a rank runs, or that it does not.
func (s *session) forked(e forkedEvent) {
	r := e.r
	if e.failed != nil {
		s.conn.Send(&wire.Started{Rank: r.plan.Rank, Code: e.failed.code, Err: e.failed.reason, Hint: e.failed.hint})
		return
	}
	r.pid, r.started = e.pid, e.at
	s.byPID[r.pid] = r
	s.owners.groups[r.pid] = r.plan.Rank
	news := wire.Started{Rank: r.plan.Rank, PID: r.pid}
	if s.prepare.Report {
		news.CPUs, news.Mems = e.cpus, e.mems
	}
	s.conn.Send(&news)
	s.catchUp(r)
	r.attach(e.pipes, s.window(), s.conn.Send)
	go s.servePMI(r)
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
func (s *session) catchUp(r *rank) {
	for _, number := range s.missed {
		unix.Kill(s.target(r), number)
	}
	if s.ending != nil && s.ending.phase == asked {
		unix.Kill(-r.pid, unix.SIGTERM)
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
func (s *session) servePMI(r *rank) {
	defer r.pmi.Close()
	err := s.pmi.Serve(context.Background(), r.plan.Rank, r.pmi)
	news := wire.PMI{Rank: r.plan.Rank}
	var junk *pmiserver.ProtocolError
	switch {
	case err == nil:
		return
	case errors.As(err, &junk):
		news.Event, news.Text = wire.PMIJunk, err.Error()
	default:
		news.Event, news.Text = wire.PMILost, err.Error()
	}
	s.conn.Send(&news)
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
			s.log.Error().Err(err).Msg("wait for ranks")
			return
		}
	}
}

// reaped notes the end of a child. A rank may end before the starter has told that
// it began; then the news waits.
func (s *session) reaped(e reapedEvent) {
	r := s.byPID[e.pid]
	if r == nil {
		if s.forking {
			s.early[e.pid] = e
		}
		s.owners.bury(e, s.ranks)
		return
	}
	delete(s.byPID, e.pid)
	r.reaped(e.status, e.used, e.at)
	r.exit.Asked = s.ending.hadAsked(e.at) && !r.dying
	r.exit.Hint = s.hint(r.exit)
	s.owners.adopt(s.byPID)
	s.releaseGuard()
	if s.mayStay() && !s.forking && s.noneAlive() {
		s.childless = true // whoever is still there stays
		s.awaitSilence()
	}
	s.reporting++
	if r.exit.Status() != 0 {
		s.failing = append(s.failing, r)
	}
	r.lastWords(s.hurry, func() { s.tell(lastWordsEvent{r}) })
}

// lastSaid notes that all that a rank wrote is under way, and reports its end.
// Failures are reported in the order of the ends: a rank that fails because another
// did, and has less to say, must not look like the first (EXIT-2).
func (s *session) lastSaid(r *rank) {
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
func (s *session) report(r *rank) {
	s.reporting--
	r.exit.PMI = job.PMIState(r.pmiState.Load())
	if r.exit.PMI == job.PMINever && r.plan.Rank == 0 && s.prepare.Size > 1 {
		r.exit.Built = builtFor(r.path)
	}
	s.pmi.Exited(r.plan.Rank)
	if !s.over {
		s.conn.Send(&wire.Exited{Exit: *r.exit})
	}
}

// target is whom a signal for a rank goes to: its process group, or the rank alone
// (SIG-6).
func (s *session) target(r *rank) int {
	if s.prepare.Leader {
		return r.pid
	}
	return -r.pid
}

// signal sends a signal to every living rank.
func (s *session) signal(number unix.Signal) {
	if s.forking {
		s.missed = append(s.missed, number)
	}
	for _, r := range s.ranks {
		if !r.alive() {
			continue
		}
		if err := unix.Kill(s.target(r), syscall.Signal(number)); err != nil && err != unix.ESRCH {
			s.log.Warn().Msg(fmt.Sprintf("rank %d: signal %d: %v", r.plan.Rank, number, err))
		}
	}
}
