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

What is done about an event, package life decides, a pure function whose table is in
doc/supervision.md; the session performs it. A session whose input ends before Bye ends
its ranks: SIGTERM, grace, SIGKILL, orphans and processes in sessions of their own
included. Should the helper itself be killed, the kernel kills the ranks (parent-death
signal), and its keeper, which is the parent of the helper and inherits all orphans, ends
the rest.

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
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/batch"
	"remshell/helper/probe"
	"remshell/idset"
	"remshell/job"
	"remshell/limits"
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
	// Limits are what this node's administrator lets a job use at most (RM-55); nil: those of
	// config.LimitsFile.
	Limits func() (limits.Map, error)
	// AwaitProbe waits for a look at this machine that has begun already; nil: there is none.
	AwaitProbe func() (job.Probe, error)
	// Now is the clock of --doctor; nil: time.Now.
	Now func() time.Time
	// Signals are those that this process catches (caught.go); nil: none.
	Signals <-chan os.Signal
	// Link is the connection to mpiexec, if it is one of ours; else that of the login, if there is one.
	Link Link
	// Terminal says that we have a controlling terminal, which no rank may have: it
	// would be stopped for touching it from the background.
	Terminal bool
}

// deathSignal is the signal that a rank gets when the helper dies. Without a keeper it only
// asks; the guard does the rest.
func (sys System) deathSignal() syscall.Signal {
	if sys.Guard != nil {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

// ranksLeadSessions reports whether each rank leads a session. The kernel shares a CPU among sessions
// first (sched_autogroup): ranks that have one together get together as much of it as one busy
// process of somebody else. But a batch system may find the processes of a job by their session; there ranks
// leave it only where they would be stopped for touching its terminal.
func (sys System) ranksLeadSessions() bool {
	return sys.Terminal || sys.sessionBatchSystem() == nil
}

// sessionBatchSystem is the batch system in whose job we are that finds the processes of a job by their session; nil: there is none.
func (sys System) sessionBatchSystem() *batch.System {
	return batch.BySessions(batch.World{Env: job.Variables(sys.Environ)})
}

// sharesHelperSession reports whether a rank stays in the helper's session. Open MPI's ranks call sched_yield while they
// wait, if they share CPUs, and with sched_autogroup the kernel then gives the CPU only to processes of the same
// session: in sessions of their own they are 100 times slower. MPICH's ranks do not yield, and each session gets
// its part of a CPU. A program that may be built with either stays: that costs MPICH a third of its speed and
// saves Open MPI much more. No rank may touch the terminal of mpiexec: there such a job has a helper of its own
// session (cli).
func (s *session) sharesHelperSession(r *rankProcess) bool {
	return !s.sys.Terminal && r.group.pmix != nil && r.pmiOffered().OffersPMIx() && r.group.pmix.Oversubscribed()
}

// shareGroupCPUs lets ranks of Open MPI that share CPUs run on all CPUs of their group, unless somebody has said how they are
// bound. Its own launcher does not bind such ranks either. Bound to one CPU, a rank waits for whatever else runs there,
// and all others wait for it. All other ranks, also those of programs whose library is not known, keep the CPUs that
// placement.md 7.2 gives them.
func (s *session) shareGroupCPUs(g *group) {
	if !g.prepare.Process.BindingUnspecified || g.pmix == nil || !g.pmix.Oversubscribed() {
		return
	}
	common := commonCPUs(g.prepare.Ranks, s.topology.UsableCPUs())
	for _, r := range g.ranks {
		if r.plan.CPUs != nil && r.pmiOffered() == job.PMIOfferPMIx {
			portion := *r.plan.RankResources
			portion.CPUs, portion.Mems = common, nil
			r.plan.RankResources, r.onGroupCPUs = &portion, true
		}
	}
}

// commonCPUs are all CPUs to which ranks are bound; nil, for no binding, if these are all that there are.
func commonCPUs(ranks []job.RankPlan, usable []int) []int {
	var all []int
	for _, r := range ranks {
		all = append(all, r.CPUs...)
	}
	if all = idset.New(all...); slices.Equal(all, usable) {
		return nil
	}
	return all
}

// ErrLeaveProcesses is the end of a session whose ranks may leave processes behind. A helper with a
// keeper then exits with StayCode, or the keeper would end them.
var ErrLeaveProcesses = errors.New("what ranks left behind may stay")

// LeaveProcessesCode is an exit code that no other end of a helper has.
const LeaveProcessesCode = 64

// Serve speaks on conn until the job is over or the other end is gone, and leaves
// no process behind. Each attempt of a job (survive.md SV-2) has a session of its own. The error says why it was not over in the regular way.
func Serve(ctx context.Context, conn io.ReadWriteCloser, sys System) error {
	if err := proc.BecomeSubreaper(); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Whoever started us may have left descriptors open; no rank may see them (IO-15).
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	host, _ := os.Hostname()
	c := wire.NewConn(conn, wire.Helper)
	if err := c.SendHello(&wire.Hello{Version: wire.Version, Build: sys.Build, Release: sys.Release, Host: host, PID: os.Getpid()}); err != nil {
		return err
	}
	s := newSession(c, sys, nil)
	s.reportProbe()
	for {
		err := s.serve(ctx)
		if s.life.HasNextAttempt() {
			s = s.nextAttempt()
			continue
		}
		s.carriedClaims.Release()
		s.conn.Close()
		if err == nil && s.life.LeavesProcesses() {
			err = ErrLeaveProcesses
		}
		return err
	}
}

// serve is one session from its first event to its last, with all that it has begun.
func (s *session) serve(ctx context.Context) error {
	go s.readFrames()
	err := s.run(ctx)
	s.takeLeftIPC().freeObjects() // if mpiexec is gone, and so was not told that nothing is left
	s.forkThread.Close()
	s.claims.Close()
	s.staging.Close()
	if s.port != nil {
		s.port.tcp.Close()
	}
	s.closePMIx()
	s.pmixClosing.Wait()
	s.examiner.Close()
	s.socket.Close()
	s.markerFiles.Remove()
	s.guard.kill()
	return err
}

// reportProbe tells what this machine is.
func (s *session) reportProbe() {
	look := s.sys.AwaitProbe
	if look == nil {
		look = func() (job.Probe, error) { return probe.Node(s.sys.Root, s.sys.Environ) }
	}
	node, err := look()
	node.NodeTime = time.Now() // what it is compared with is when the answer comes
	s.cpus, s.topology = node.Topology.CPUNumberLimit(), node.Topology
	s.claims.SetMachineID(node.Identity)
	answer := &wire.NodeInfo{Probe: node}
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

// InProcess is the helper of a job on this machine alone, in the process of its mpiexec:
// the start of another Go program would take longer than all the rest (doc/adr/0007).
// Close waits until it has ended what is left.
type InProcess struct {
	*wire.InProcess
	done chan struct{} // closed when the helper has left
}

// NewInProcess starts one.
func NewInProcess(sys System) InProcess {
	near, far := wire.NewInProcess()
	i := InProcess{near, make(chan struct{})}
	go func() {
		defer close(i.done)
		if err := Serve(context.Background(), far, sys); err != nil {
			far.Fail(err) // of what kept it from saying anything: else it is closed by now
		}
	}()
	return i
}

// Close ends the conversation.
func (i InProcess) Close() error {
	err := i.InProcess.Close()
	<-i.done
	return err
}

// Source is that of package transport.
func (i InProcess) Source() string { return "inside" }
