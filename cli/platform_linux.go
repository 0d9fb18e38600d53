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

// This file has what only Linux can do for a launcher.

// newInProcessHelper starts the helper of a job on this machine alone, in this process.
func newInProcessHelper(environ, guard []string, probed func() (job.Probe, error)) io.ReadWriteCloser {
	return helper.NewInProcess(helper.System{
		Root: probe.RootFS(""), Environ: environ, Guard: guard, AwaitProbe: probed, Terminal: hasTerminal(),
	})
}

// Stdout is our standard output, or what fails in its place if it was closed before we began. Go's runtime
// would have us write to /dev/null then.
func Stdout() io.Writer {
	if reaper.StdoutClosed() {
		return closedStdout{}
	}
	return os.Stdout
}

// closedStdout takes nothing.
type closedStdout struct{}

func (closedStdout) Write([]byte) (int, error) {
	return 0, &usererr.Error{Text: "write /dev/stdout: it is closed", Remedy: ">/dev/null throws output away"}
}

// startLocalProbe begins to look at this machine as the helper of a job here alone will ask for it. What was seen
// is told once: each later life of the job has a helper of its own, for which it may be days old.
func startLocalProbe(environ []string) func() (job.Probe, error) {
	look := func() (job.Probe, error) { return probe.Node(probe.RootFS(""), request.HelperEnv(environ)) }
	type seen struct {
		probe job.Probe
		err   error
	}
	ahead := make(chan seen, 1)
	go func() {
		defer close(ahead)
		probed, err := look()
		ahead <- seen{probed, err}
	}()
	return func() (job.Probe, error) {
		if first, untold := <-ahead; untold {
			return first.probe, first.err
		}
		return look()
	}
}

// probeLocal looks at this machine.
func probeLocal(sys System) (job.Probe, error) { return probe.Node(sys.FS, sys.Environ) }

// localAttributes reads what sets of nodes are made by.
func localAttributes(sys System) job.Attributes { return probe.Attributes(sys.FS, sys.Environ) }

// examineLocalLogin looks at the login from which jobs are launched.
func examineLocalLogin(ctx context.Context, sys System) *job.NodeDiagnosis {
	exam := diagnose.ExamineLogin(ctx, sys.Environ)
	return &exam
}

// detectLocalPMI is what a program would be offered on this machine, and why; empty: it is not found.
func detectLocalPMI(app job.App, environ []string) string {
	path, missing := rank.FindProgram(app.Argv[0], app.Dir, app.SearchBefore, rank.SearchPath(environ))
	if missing != nil {
		return ""
	}
	return pmidetect.NewJudge(pmidetect.Disk{}).Verdict(path, pmidetect.SearchOf(environ, app.Dir)).String()
}

// lockFile locks a file against all others, until it is closed everywhere; EAGAIN or EACCES: another has it.
func lockFile(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// keepNewlines lets a terminal that is raw go on to put a carriage return before each
// newline.
func keepNewlines(fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Oflag |= unix.OPOST | unix.ONLCR
		unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
}

// propagatedLimits are the limits that a shell sets by ulimit and that matter to a program on
// another host (ENV-8). The number of processes is not among them: it counts those of
// the user on that host, of which we know nothing here.
var propagatedLimits = []int{unix.RLIMIT_AS, unix.RLIMIT_CORE, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_FSIZE,
	unix.RLIMIT_MEMLOCK, unix.RLIMIT_NOFILE, unix.RLIMIT_STACK}

// softLimits are those limits as this process found them.
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

// openFileLimit is the limit of open files. Go raises ours before anything of this program
// runs (package syscall, rlimit.go) and gives what it found to children only, so a child
// has to tell.
func openFileLimit() (int64, bool) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	text := strings.TrimSpace(string(out))
	if text == "unlimited" {
		return -1, true
	}
	n, bad := strconv.ParseInt(text, 10, 64)
	return n, err == nil && bad == nil
}
