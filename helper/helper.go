//go:build linux

/*
Package helper implements the helper, which is mpiexec's process on a node. The helper probes the machine, starts ranks,
carries their streams and signals, and serves their PMI. It ends all processes of the job when the job ends, whatever
the reason.

	       mpiexec
	          |  frames (package wire)
	.---------+----------.
	|       reader       |  sorts frames, never waits
	|         |          |
	|      session  <----+--- fork thread: rank started, or why not
	|    owns all state <+--- reap loop: child exited, and how
	|         |     <----+--- link watch, timers
	'---------|----------'
	streams, PMI            one goroutine for each rank and stream; it sends to mpiexec by itself

For each event, a pure function of package lifecycle decides what to do, and the session carries out the decision. The
table of decisions is in doc/supervision.md. If the connection ends before the message Bye, the session ends its ranks
with SIGTERM and, after a grace period, SIGKILL. It also ends orphans and processes in other sessions. If the helper
itself is killed, the kernel kills the ranks (parent-death signal). The helper's parent, the reaper, then inherits all
orphans and ends them. A helper inside mpiexec has a guard instead of a reaper.

The package reads neither the configuration of mpiexec nor mpiexec's environment, because the message Prepare
contains everything that it needs.
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

// A System describes the machine, and the process in which a helper runs.
type System struct {
	Build   string   // identifies this binary
	Release string   // version shown to people
	Root    fs.FS    // the node's "/", for /proc and /sys
	Environ []string // the helper's own environment

	// Guard is set for a helper inside mpiexec, which has no reaper above it. It holds the command-line arguments that
	// start this program as the helper's guard.
	Guard []string
	// Limits reads the most that this node's administrator lets a job use (rule RM-55). If nil,
	// config.LimitsFile is read.
	Limits func() (limits.Map, error)
	// AwaitProbe waits for a probe of this machine that is already under way. If nil, Serve makes its own.
	AwaitProbe func() (job.Probe, error)
	// Now is the clock of --doctor and of turns (--gang). If nil, it is time.Now.
	Now func() time.Time
	// Signals delivers the signals that this process catches. If nil, it catches none.
	Signals <-chan os.Signal
	// Link is the TCP connection to mpiexec, if the helper's own. If it is zero, the ssh connection of the login is
	// used, if there is one.
	Link Link
	// Terminal is true if the helper has a controlling terminal. No rank may share it: the kernel would stop a rank
	// that touches the terminal from the background.
	Terminal bool
}

// deathSignal returns the signal that the kernel sends to a rank when the helper dies. It is SIGKILL if the helper has
// a reaper. Otherwise it is SIGTERM, because the helper's guard sends SIGKILL later.
func (sys System) deathSignal() syscall.Signal {
	if sys.Guard != nil {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

// ranksLeadSessions reports whether each rank leads a session. With sched_autogroup, the kernel shares a CPU first
// among sessions. All ranks in one session would together get only as much CPU time as one busy process of another
// session. The result is false under batch systems that find a job's processes by their session, unless the helper has
// a controlling terminal, which no rank may share. If it is false, a rank leads a session only if it has a terminal of
// its own.
func (sys System) ranksLeadSessions() bool {
	return sys.Terminal || sys.sessionBatchSystem() == nil
}

// sessionBatchSystem returns the batch system that runs this helper, if that batch system finds a job's
// processes by their session. Otherwise it returns nil.
func (sys System) sessionBatchSystem() *batch.System {
	return batch.BySessions(batch.Inputs{Env: job.Variables(sys.Environ)})
}

// sharesHelperSession reports whether a rank stays in the helper's session.
//
// If Open MPI's ranks share CPUs, they call sched_yield while they wait. With sched_autogroup, the kernel then gives
// the CPU only to processes of the same session: in separate sessions such ranks are 100 times slower. MPICH's ranks do
// not yield, and each session gets its share of a CPU. If it is not known which of the two libraries
// the program uses, the rank stays in the helper's session: MPICH loses a third of its speed there, but Open MPI gains
// much more. Such a rank must not share mpiexec's terminal. So if mpiexec has a terminal, the helper runs in a session
// of its own (package cli).
func (s *Session) sharesHelperSession(r *Rank) bool {
	return !s.sys.Terminal && r.group.pmix != nil && r.pmiOffered().OffersPMIx() && r.group.pmix.Oversubscribed()
}

// shareGroupCPUs lets Open MPI ranks that share CPUs run on all CPUs of their group, unless the user asked for a
// binding. A rank bound to one CPU has to wait for other processes that run there, and all other ranks wait for
// that rank. Ranks of other libraries, or of an unknown one, keep the CPUs that placement.md 7.2 gives them.
func (s *Session) shareGroupCPUs(g *Group) {
	if !g.Prepare.Process.BindingUnspecified || g.pmix == nil || !g.pmix.Oversubscribed() {
		return
	}
	common := commonCPUs(g.Prepare.Ranks, s.topology.UsableCPUs())
	for _, r := range g.ranks {
		if r.Plan.CPUs != nil && r.pmiOffered() == job.PMIOfferPMIx {
			portion := *r.Plan.RankResources
			portion.CPUs, portion.Mems = common, nil
			r.Plan.RankResources, r.onGroupCPUs = &portion, true
		}
	}
}

// commonCPUs returns all CPUs to which at least one of the ranks is bound. If these are exactly the usable CPUs, it
// returns nil, which means no binding.
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

// ErrLeaveProcesses is returned by Serve if processes that ranks have left behind may keep running
// (--leave-children). A helper with a reaper then exits with LeaveProcessesCode, which tells the reaper not
// to end them.
var ErrLeaveProcesses = errors.New("child processes of the ranks may still be running")

// LeaveProcessesCode is the helper's exit code for ErrLeaveProcesses. A helper has this exit code in no other
// case.
const LeaveProcessesCode = 64

// Serve runs a helper on conn until the job is over or mpiexec is gone. When it returns, no process of the
// job is left, unless processes may stay (ErrLeaveProcesses). Each attempt of a job (survive.md SV-2) has a
// session of its own. The error is nil if mpiexec ended the job with Bye; otherwise it says why the helper
// stopped.
func Serve(ctx context.Context, conn io.ReadWriteCloser, sys System) error {
	if err := proc.BecomeSubreaper(); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// The parent may have left descriptors open. No rank may inherit them (rule IO-15).
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
		if s.Lifecycle.HasNextAttempt() {
			s = s.nextAttempt()
			continue
		}
		s.carriedClaims.Release()
		s.conn.Close()
		if err == nil && s.Lifecycle.LeavesProcesses() {
			err = ErrLeaveProcesses
		}
		return err
	}
}

// serve runs one session to its end, and closes everything that the session started.
func (s *Session) serve(ctx context.Context) error {
	go s.readFrames()
	err := s.run(ctx)
	for _, closing := range s.Hooks.Closing {
		closing()
	}
	s.forkThread.Close()
	s.claims.Close()
	if s.port != nil {
		s.port.tcp.Close()
	}
	s.closePMIx()
	s.pmixClosing.Wait()
	s.examiner.Close()
	s.markerFiles.Remove()
	s.guard.kill()
	return err
}

// reportProbe sends mpiexec the probe of this machine.
func (s *Session) reportProbe() {
	probeNode := s.sys.AwaitProbe
	if probeNode == nil {
		probeNode = func() (job.Probe, error) { return probe.Node(s.sys.Root, s.sys.Environ) }
	}
	node, err := probeNode()
	node.NodeTime = time.Now() // mpiexec compares it with its own clock on receipt
	s.cpus, s.topology = node.Topology.CPUNumberLimit(), node.Topology
	s.claims.SetMachineID(node.Identity)
	answer := &wire.NodeInfo{Probe: node}
	if err != nil {
		answer.Err = err.Error()
	}
	s.conn.Send(answer)
}

// A logger sends the helper's log lines to mpiexec.
type logger struct{ conn *wire.Conn }

func (l logger) warn(format string, args ...any) {
	l.conn.Send(&wire.Log{Warning: true, Text: fmt.Sprintf(format, args...)})
}

func (l logger) inform(format string, args ...any) {
	l.conn.Send(&wire.Log{Text: fmt.Sprintf(format, args...)})
}

// InProcess is a helper that runs inside mpiexec, for a job on this machine alone. This is much faster than
// starting a second Go program (doc/adr/0007). Close waits until the helper has ended the job's processes.
type InProcess struct {
	*wire.InProcess
	done chan struct{} // closed when the helper has returned
}

// NewInProcess starts a helper in this process.
func NewInProcess(sys System) InProcess {
	near, far := wire.NewInProcess()
	i := InProcess{near, make(chan struct{})}
	go func() {
		defer close(i.done)
		if err := Serve(context.Background(), far, sys); err != nil {
			far.Fail(err) // reports an error of Serve's start; later the connection is closed already
		}
	}()
	return i
}

// Close closes the connection and waits for the helper to return.
func (i InProcess) Close() error {
	err := i.InProcess.Close()
	<-i.done
	return err
}

// Source implements transport.Conn: it says where the helper's program comes from.
func (i InProcess) Source() string { return "inside" }
