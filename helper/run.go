//go:build linux

package helper

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/lifecycle"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/mpifault"
	"remshell/proc"
	"remshell/wire"
)

// reportRefused reports to mpiexec why a group was not prepared: another job uses its CPUs, or this node
// refuses the job.
func (s *Session) reportRefused(e claimedEvent) {
	if e.Conflict != "" {
		s.conn.Send(&wire.ClaimConflict{Group: e.m.Group.Name, Reason: e.Conflict})
		return
	}
	s.conn.Send(&wire.Refused{Group: e.m.Group.Name, Code: job.ExitInternal, Reason: "this host " + strings.TrimPrefix(e.Forbidden, "the host "), Hint: "ask the administrator of the host, or use other hosts"})
}

// prepareGroup checks working directories, programs and environments of a group before any rank starts. Then
// it replies to mpiexec with Prepared or Refused.
func (s *Session) prepareGroup(a lifecycle.PrepareGroup) {
	e := a.Payload.(claimedEvent)
	if s.heldClaim == nil {
		s.heldClaim = e.Held
	}
	refused := s.checkGroup(e.m)
	if a.First {
		s.jobsAtBegin = e.Jobs
		s.beginJob(e.m)
	}
	var g *Group
	if refused == nil {
		g, refused = s.newGroup(e.m)
	}
	if refused != nil {
		s.closeUnwantedPMIx(nil)
		s.conn.Send(&wire.Refused{Group: a.Group, Code: refused.Code, Reason: refused.Reason, Hint: refused.Hint})
		return
	}
	s.groups[a.Group] = g
	s.stepLifecycle(lifecycle.Ready{Group: a.Group, Ranks: len(g.ranks)})
	s.startLinkWatch(&e.m.Supervision)
	s.conn.Send(&wire.Prepared{Group: a.Group, Notice: e.Notice, Rendezvous: g.rendezvous})
}

// checkGroup asks the features whether the ranks of a group may run here. It returns the reason of the first feature
// that refuses the group, or nil.
func (s *Session) checkGroup(m *wire.Prepare) (refused *rank.Error) {
	for _, check := range s.Hooks.GroupPrepares {
		if err := check(m); refused == nil {
			refused = err
		}
	}
	return refused
}

// beginJob applies settings for the whole job, which the first Prepare message of the job contains.
func (s *Session) beginJob(m *wire.Prepare) {
	s.Prepare = m
	for _, begins := range s.Hooks.JobBegins {
		begins(m)
	}
	s.countDenials(false)
	if !s.leadSessions {
		by := s.sys.sessionBatchSystem()
		s.log.inform("ranks stay in the session of their parent process, because %s finds the ranks by this session (%s)", by.Title, by.Variable)
	}
	rank.WithoutBounded(m.Process.SoftLimits, m.Process.KernelLimits).SetInherited(func(text string) { s.log.inform("%s", text) })
	if m.Process.Umask >= 0 {
		unix.Umask(m.Process.Umask)
	}
}

// forkGroup makes the fork thread (the thread that starts all ranks) start the ranks of a group, in order. It
// does not wait for the result.
func (s *Session) forkGroup(a lifecycle.Fork) {
	g := s.groups[a.Group]
	g.rendezvous = a.Rendezvous
	g.freeRendezvous()
	s.addRanks(g, a.First)
	refused := s.completeGroup(g)
	if refused == nil {
		s.shareGroupCPUs(g)
		for _, r := range g.ranks {
			s.completeCommand(r)
		}
	}
	batch := forkBatch{ranks: g.ranks, binder: s.newBinder(g), soft: rank.WithoutBounded(s.Prepare.Process.SoftLimits, s.Prepare.Process.KernelLimits), failed: refused}
	batch.limits, batch.priority = batch.soft.ForFork(s.sys.Guard != nil), rank.Priority(s.Prepare.Process.Priority)
	go func() {
		s.forkThread.Do(func() { s.forkAll(batch) })
		s.PostEvent(lifecycle.ForkingEnded{})
	}()
	time.AfterFunc(shortJob, func() { s.PostEvent(shortJobOver{}) })
	if s.sys.Guard != nil {
		s.updateGuardAfter(guardDelay)
	}
}

// shortJob is how long ranks must run before the helper begins work that short jobs do not need.
const shortJob = time.Second

// beginLongJob begins work that short jobs do not need. It starts to receive requests to the job, which are
// files in the node's ledger (directory of claims), and calls features that have such work. It does nothing
// if no rank runs any more. It may be called several times.
func (s *Session) beginLongJob() {
	if s.Lifecycle.IsDisconnected() || !s.Lifecycle.RankAlive() {
		return
	}
	s.claims.ReceiveRequests(s.Prepare.Claim.Ledger, s.Prepare.Job)
	for _, begins := range s.Hooks.LongJobBegins {
		begins()
	}
}

// completeGroup lets the features complete the programs and variables of a group's ranks just before the group
// starts. It returns the reason of the first feature that refuses the group, or nil.
func (s *Session) completeGroup(g *Group) (refused *rank.Error) {
	for _, starts := range s.Hooks.GroupStarts {
		if err := starts(g); refused == nil {
			refused = err
		}
	}
	for _, r := range g.ranks {
		if refused == nil && r.command.Path == "" {
			refused = rank.InternalError(fmt.Sprintf("program %s was not copied to this host by --stage", g.Prepare.Apps[r.Plan.App].StagedFile), "")
		}
	}
	if refused == nil {
		s.admitPMIx(g)
	}
	return refused
}

// A forkBatch contains the data that the fork thread (the thread that starts all ranks) needs for a group.
type forkBatch struct {
	ranks    []*Rank
	binder   *rank.Binder
	soft     rank.SoftLimits
	limits   []rank.ForkLimit
	priority rank.Priority
	failed   *rank.Error // why no rank of the group can start; nil: they can
}

// forkAll starts the ranks of a batch on the fork thread. Before each rank it checks whether the job or the group is
// being ended.
func (s *Session) forkAll(b forkBatch) {
	defer b.binder.Restore()
	defer s.setPriority(b.priority)()
	for _, r := range b.ranks {
		if s.stopForking.Load() {
			return
		}
		failed := b.failed
		if r.group.canceled.Load() {
			failed = errGroupCanceled
		}
		if failed != nil {
			s.PostEvent(forkedEvent{r: r, failed: failed})
			continue
		}
		at := time.Now()
		born, failed := r.command.Start(b.binder, b.limits)
		if failed == nil {
			b.soft.ApplyTo(born.PID)
			for _, forked := range s.Hooks.RankForked {
				forked(born)
			}
		}
		s.PostEvent(forkedEvent{r, born, at, failed})
	}
}

// setPriority gives the fork thread (the thread that starts all ranks) the priority that the next ranks inherit. It
// must run on that thread. The returned function restores the process's own settings. The first call of setPriority
// reports priorities that this node does not allow.
func (s *Session) setPriority(p rank.Priority) (restore func()) {
	restore, denied, important := p.SetForForks()
	if len(denied) == 0 || s.priorityReported {
		return restore
	}
	s.priorityReported = true
	text := "cannot set the priority of ranks: " + strings.Join(denied, "; ")
	if important {
		s.log.warn("%s", text)
	} else {
		s.log.inform("%s", text)
	}
	return restore
}

// newBinder returns the Binder that binds the ranks of a group to CPUs and memory.
func (s *Session) newBinder(g *Group) *rank.Binder {
	return rank.NewBinder(g.Prepare.Process.BindingRequired, func(text string) { s.log.warn("%s", text) },
		func() []int { return probe.AllowedMemory(s.sys.Root) })
}

// peerAddress returns the address at which other nodes can reach this node. It is the address that mpiexec
// has chosen, or else the one at which sshd was reached. It is empty if neither is known. The host's name is
// not used, because it often resolves to 127.0.1.1, and the name that the user knows may exist only in an ssh
// configuration.
func (s *Session) peerAddress(m *wire.Prepare) string {
	if m.Node.Address != "" || m.Node.OnlyNode {
		return m.Node.Address
	}
	local, _, ok := probe.SSHConnection(s.sys.Environ)
	if !ok || local.Addr().IsLoopback() {
		return ""
	}
	return local.Addr().String()
}

// rankIdentity returns the data about a rank and its job from which the rank's environment is built.
func (s *Session) rankIdentity(r *Rank) rank.Identity {
	m := r.group.Prepare
	id := rank.Identity{
		Job: m.Job, Size: m.Group.Size, Nodes: m.Group.NodeCount, Node: m.Node.Index, Host: m.Node.Name, Address: r.group.address, Spawned: m.Group.First > 0,
		Iface: m.Node.Interface, Compat: m.Process.Compat, Rendezvous: r.group.rendezvous, Ledger: m.Claim.Ledger, Variables: r.group.variables,
		Rank: r.Plan.Rank, LocalRank: r.Plan.Local, LocalSize: len(m.Ranks), App: r.Plan.App, EarlierRanks: m.Node.EarlierRanks,
		Slots: r.Plan.Slots, NodeSlots: m.Node.Slots, NodeCPUs: s.cpus,
		Offer: r.pmiOffered(), PMIx: r.group.pmix, GPUs: r.Plan.GPUs, NoGPUs: m.Apps[r.Plan.App].GPUs == job.NoGPUs,
		Places: m.Process.OMPPlaces,
	}
	if r.tcp != nil {
		id.PMIPort, id.PMIID = s.port.tcp.Addr().String(), r.pmiID
	}
	return id
}

// completeCommand sets the parts of a rank's command that are known only when the rank starts.
func (s *Session) completeCommand(r *Rank) {
	m, c := r.group.Prepare, &r.command
	c.Identity = s.rankIdentity(r)
	c.Env = s.composeAppEnv(r)
	c.CPUs, c.Mems, c.MemMode = r.Plan.CPUs, r.Plan.Mems, r.Plan.MemMode
	c.Stdin, c.MergeStderr, c.NoPMI = r.stdin != nil, m.Streams.MergeStderr, r.tcp != nil || !r.pmiOffered().OffersPMI()
	c.WindowSize = unix.Winsize{Row: uint16(m.Streams.Rows), Col: uint16(m.Streams.Cols)}
	if r.pmiOffered().OffersPMIx() {
		c.TimerSlack = r.group.pmix.TimerSlack()
	}
	c.LeadSession, c.DeathSignal = s.leadSessions && !s.sharesHelperSession(r), s.sys.deathSignal()
}

// handleForked handles the end of a fork: the rank runs, or could not be started.
func (s *Session) handleForked(e forkedEvent) {
	r := e.r
	if e.failed != nil {
		s.stepLifecycle(lifecycle.NotForked{Rank: r.lifecycleIndex})
		s.conn.Send(&wire.Started{Rank: r.Number, Code: e.failed.Code, Err: e.failed.Reason, Hint: e.failed.Hint})
		return
	}
	r.Child, r.started = e.Process, e.at
	s.stepLifecycle(lifecycle.Forked{Rank: r.lifecycleIndex, PID: e.PID, At: e.at})
}

// reportStarted reports to mpiexec that a rank is running, and attaches its streams.
func (s *Session) reportStarted(r *Rank) {
	s.orphans.rankByGroup[r.Child.PID] = r.Number
	s.reportToGuard(rankRecord{PID: uint32(r.Child.PID)})
	started := &wire.Started{Rank: r.Number, PID: r.Child.PID, Unbound: r.onGroupCPUs}
	for _, rankStarted := range s.Hooks.RankStarted {
		rankStarted(r, started)
	}
	s.conn.Send(started)
	r.attachStreams(r.group.streamWindow(), s.pipeSizes, s.conn.Send)
	close(r.announced)
	if conn, ok := r.pmi.(*pmiConn); ok {
		go s.servePMI(r, conn)
	}
}

// reapLoop waits for the ends of all children, ranks and orphans alike, until the session ends. Apart from it, only the
// fork thread waits for a child, if that child could not execute its program. So each exit is seen exactly once.
func (s *Session) reapLoop() {
	for {
		e, err := reapOne()
		switch {
		case err == nil:
			s.PostEvent(e)
		case err == unix.ECHILD:
			s.PostEvent(lifecycle.NoChildren{})
			select {
			case <-s.done:
				return
			case <-s.moreChildren:
			}
		case err != unix.EINTR:
			s.log.warn("cannot wait for the ranks to end: %v", err)
			return
		}
	}
}

// reapOne waits until one child has exited, and returns how it ended. The error is EINTR if the fork thread
// has already waited for that child.
func reapOne() (e lifecycle.ChildEnded, err error) {
	pid, err := proc.AwaitChildEnd()
	if err != nil {
		return e, err
	}
	e.At = time.Now()
	info, _ := proc.ReadInfo(pid)
	if info.Thread { // it ended while its stack was read: only a tracer hears of the end of a thread
		unix.Wait4(pid, nil, unix.WALL, nil)
		return e, unix.EINTR
	}
	limits := rlimitsOf(pid)
	var status unix.WaitStatus
	var used unix.Rusage
	if e.PID, err = unix.Wait4(pid, &status, 0, &used); err == unix.ECHILD {
		return e, unix.EINTR // the fork thread reaped a child that failed to exec
	}
	e.Group, e.Started, e.Exit.Usage = info.Group, info.StartTime.Time(), rusageOf(&used)
	if status.Signaled() {
		e.Exit.Signal, e.Exit.Core = int(status.Signal()), status.CoreDump()
	} else {
		e.Exit.Code = status.ExitStatus()
	}
	e.Exit.Hint = limits.exceeded(e.Exit)
	return e, err
}

// handleExit records how a rank ended, and waits for the rest of its output.
func (s *Session) handleExit(a lifecycle.NoteExit) {
	r := s.ranks[a.Rank]
	r.noteExit(a.Exit, a.At)
	s.reportToGuard(rankRecord{PID: uint32(r.Child.PID), Ended: uint64(proc.CurrentTicks())})
	for _, reaped := range s.Hooks.RankReaped {
		reaped(r, a.Started, a.At)
	}
	r.Exit.ToldToEnd = a.WasTerminated && !r.dying
	r.Exit.Hint = s.exitHint(r.Exit)
	r.awaitOutput(s.jobEnding, func() { s.PostEvent(lifecycle.OutputSent{Rank: a.Rank}) })
}

// reportExit completes the record of a rank's exit. If send is true, it sends the record to mpiexec.
func (s *Session) reportExit(r *Rank, send bool) {
	r.Exit.PMI = job.PMIState(r.pmiState.Load())
	if r.stdin != nil {
		r.Exit.StdinRead = r.stdin.consumedBytes()
	}
	if r.Exit.PMI == job.PMIUnused && r.Plan.Rank == 0 && r.group.Prepare.Group.Size > 1 {
		r.Exit.MPILibrary, r.Exit.PMIOffer = s.builtForLibrary(r), r.pmiOffered()
	}
	r.Exit.FinalizeBarrier, r.Exit.LibraryFault = s.barrierFault(r)
	for _, ended := range s.Hooks.RankEnded {
		ended(r)
	}
	r.group.pmi.Exited(r.Plan.Rank)
	if s.pmix != nil {
		s.pmix.server.RankExited(r.group.Prepare.Group.Name, r.Plan.Rank)
	}
	r.reportMu.Lock()
	r.exitReported = true
	if send {
		s.conn.Send(&wire.Exited{Exit: *r.Exit})
	}
	r.reportMu.Unlock()
}

// noteBarrier records in which PMI barrier a rank waits. It is called before the rank receives a signal that
// may end it.
func (r *Rank) noteBarrier() {
	if r.Exit == nil {
		r.barrier = max(r.barrier, r.group.pmi.Barrier(r.Plan.Rank))
	}
}

// barrierFault returns the barrier in which a rank waited when a signal ended the rank. It also returns a known fault
// of the rank's MPI library that may have kept the rank there. It returns 0 and "" if the rank was in no barrier.
func (s *Session) barrierFault(r *Rank) (barrier int, fault string) {
	if r.barrier == 0 || r.Exit.Status() == 0 || r.Exit.PMI != job.PMIOpen {
		return 0, ""
	}
	fault = s.FinalizeFault(r)
	return r.barrier, fault
}

// FinalizeFault returns the code of a known fault of the rank's MPI library that makes MPI_Finalize hang, or "". It may
// read the rank's program. Only the session's goroutine may call it.
func (s *Session) FinalizeFault(r *Rank) string {
	o := r.group.pmiOffers[r.Plan.App]
	if o == nil {
		return ""
	}
	library := o.MPI
	if library.Family == "" { // --pmi set the offer, so the library was not looked at
		library = s.detectLibrary(r).MPI
	}
	for _, f := range mpifault.FaultsOf(library) {
		if f.Code == mpifault.Finalize {
			return f.Code
		}
	}
	return ""
}

// passSignal sends a user's signal to a rank's process group. If the job's Supervision has ProcessOnly set,
// it sends the signal only to the rank's own process (rule SIG-6).
func (s *Session) passSignal(r *Rank, number unix.Signal) {
	r.noteBarrier()
	target := -r.Child.PID
	if s.Prepare.Supervision.ProcessOnly {
		target = r.Child.PID
	}
	if err := unix.Kill(target, number); err != nil && err != unix.ESRCH {
		s.log.warn("rank %d: signal %d: %v", r.Number, number, err)
	}
}
