package cli

import (
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/cli/request"
	"remshell/helper"
	"remshell/helper/diagnose"
	"remshell/helper/pmidetect"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/helper/reaper"
	"remshell/job"
	"remshell/usererr"
)

// This file contains the parts of the launcher that only Linux supports.

// newInProcessHelper starts a helper in this process, for a job on this machine alone. The helper calls probed to get
// the probe of this machine.
func newInProcessHelper(environ, guard []string, probed func() (job.Probe, error)) io.ReadWriteCloser {
	return helper.NewInProcess(helper.System{
		Root: probe.RootFS(""), Environ: environ, Guard: guard, AwaitProbe: probed, Terminal: hasTerminal(),
	})
}

// Stdout returns mpiexec's standard output. If standard output was closed when mpiexec was started, Go's
// runtime has opened /dev/null in its place. Then Stdout returns a writer that always fails.
func Stdout() io.Writer {
	if reaper.StdoutClosed() {
		return closedStdout{}
	}
	return os.Stdout
}

// A closedStdout is a Writer that always fails.
type closedStdout struct{}

func (closedStdout) Write([]byte) (int, error) {
	return 0, &usererr.Error{Text: "standard output is closed", Remedy: "to discard the output, use >/dev/null"}
}

// startLocalProbe starts to probe this machine in the background, to save time in jobs that run on this machine alone.
// The first call of the returned function returns this probe. Further calls, for later attempts of the job, probe
// again, because a later attempt may start days afterwards.
func startLocalProbe(environ []string) func() (job.Probe, error) {
	probeNow := func() (job.Probe, error) { return probe.Node(probe.RootFS(""), request.HelperEnv(environ)) }
	type probeResult struct {
		probe job.Probe
		err   error
	}
	early := make(chan probeResult, 1)
	go func() {
		defer close(early)
		probed, err := probeNow()
		early <- probeResult{probed, err}
	}()
	return func() (job.Probe, error) {
		if first, unused := <-early; unused {
			return first.probe, first.err
		}
		return probeNow()
	}
}

func probeLocal(sys System) (job.Probe, error) { return probe.Node(sys.FS, sys.Environ) }

// localAttributes returns the attributes of this machine, from which node sets are formed.
func localAttributes(sys System) job.Attributes { return probe.Attributes(sys.FS, sys.Environ) }

// examineLocalLogin diagnoses the user's login on this machine, from which mpiexec launches jobs.
func examineLocalLogin(ctx context.Context, sys System) *job.NodeDiagnosis {
	exam := diagnose.ExamineLogin(ctx, sys.Environ)
	return &exam
}

// detectLocalPMI returns a text that says which PMI a program on this machine may use, and how mpiexec knows. It
// returns "" if there is no such program.
func detectLocalPMI(app job.App, environ []string) string {
	path, missing := rank.FindProgram(app.Argv[0], app.Dir, app.SearchBefore, rank.SearchPath(environ))
	if missing != nil {
		return ""
	}
	return pmidetect.NewDetector(pmidetect.Disk{}).Detect(path, pmidetect.SearchOf(environ, app.Dir)).String()
}

// lockFile locks a file exclusively. The lock lasts until all descriptors of the file are closed. lockFile
// does not wait: if another process holds the lock, the error is EAGAIN or EACCES.
func lockFile(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// keepNewlines makes a raw terminal print a carriage return before each newline.
func keepNewlines(fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Oflag |= unix.OPOST | unix.ONLCR
		unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
}

// propagatedLimits are the resource limits that ranks on other hosts inherit from mpiexec (rule ENV-8). RLIMIT_NPROC
// is not among them, because it limits the number of the user's processes on the other host.
var propagatedLimits = []int{unix.RLIMIT_AS, unix.RLIMIT_CORE, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_FSIZE,
	unix.RLIMIT_MEMLOCK, unix.RLIMIT_NOFILE, unix.RLIMIT_STACK}

// softLimits returns the soft limits in propagatedLimits with which this process was started. -1 means
// unlimited.
func softLimits() (limits []job.SoftLimit) {
	for _, resource := range propagatedLimits {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) != nil {
			continue
		}
		soft := int64(-1)
		if l.Cur < math.MaxInt64 {
			soft = int64(l.Cur)
		}
		if resource == unix.RLIMIT_NOFILE {
			var known bool
			if soft, known = openFileLimit(); !known {
				continue
			}
		}
		limits = append(limits, job.SoftLimit{Resource: resource, Soft: soft})
	}
	return limits
}

// ownPriority returns the priority with which this process was started.
func ownPriority() job.Priority { return job.Priority(rank.OwnPriority()) }

// openFileLimit returns the soft limit of open files with which this process was started. -1 means unlimited.
// Go raises the limit before main and restores it only in child processes (package syscall, rlimit.go), so
// openFileLimit lets a child process read it.
func openFileLimit() (int64, bool) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	text := strings.TrimSpace(string(out))
	if text == "unlimited" {
		return -1, true
	}
	n, bad := strconv.ParseInt(text, 10, 64)
	return n, err == nil && bad == nil
}
