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
	"remshell/fault"
	"remshell/helper"
	"remshell/helper/checkup"
	"remshell/helper/keeper"
	"remshell/helper/offer"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
)

// This file has what only Linux can do for a launcher.

// newInside starts the helper of a job on this machine alone, in this process.
func newInside(environ, guard []string, probed func() (job.Probe, error)) io.ReadWriteCloser {
	return helper.NewInside(helper.System{
		Root: probe.Disk(""), Environ: environ, Guard: guard, Probed: probed, Terminal: hasTerminal(),
	})
}

// Stdout is our standard output, or what fails in its place if it was closed before we began. Go's runtime
// would have us write to /dev/null then.
func Stdout() io.Writer {
	if keeper.StdoutClosed() {
		return closedStdout{}
	}
	return os.Stdout
}

// closedStdout takes nothing.
type closedStdout struct{}

func (closedStdout) Write([]byte) (int, error) {
	return 0, &fault.Error{Text: "write /dev/stdout: it is closed", Remedy: ">/dev/null throws output away"}
}

// lookAhead begins to look at this machine as the helper of a job here alone will ask for it. What was seen
// is told once: each later life of the job has a helper of its own, for which it may be days old.
func lookAhead(environ []string) func() (job.Probe, error) {
	look := func() (job.Probe, error) { return probe.Node(probe.Disk(""), request.HelperEnv(environ)) }
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

// probeHere looks at this machine.
func probeHere(sys System) (job.Probe, error) { return probe.Node(sys.FS, sys.Environ) }

// traitsHere reads what sets of nodes are made by.
func traitsHere(sys System) job.Traits { return probe.Traits(sys.FS, sys.Environ) }

// loginHere looks at the login from which jobs are launched.
func loginHere(ctx context.Context, sys System) *job.Exam {
	exam := checkup.Login(ctx, sys.Environ)
	return &exam
}

// offerHere is what a program would be offered on this machine, and why; empty: it is not found.
func offerHere(app job.App, environ []string) string {
	path, missing := rank.Locate(app.Argv[0], app.Dir, app.Path, rank.SearchPath(environ))
	if missing != nil {
		return ""
	}
	return offer.NewJudge(offer.Disk{}).Verdict(path, offer.SearchOf(environ, app.Dir)).String()
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

// propagated are the limits that a shell sets by ulimit and that matter to a program on
// another host (ENV-8). The number of processes is not among them: it counts those of
// the user on that host, of which we know nothing here.
var propagated = []int{unix.RLIMIT_AS, unix.RLIMIT_CORE, unix.RLIMIT_CPU, unix.RLIMIT_DATA, unix.RLIMIT_FSIZE,
	unix.RLIMIT_MEMLOCK, unix.RLIMIT_NOFILE, unix.RLIMIT_STACK}

// softLimits are those limits as this process found them.
func softLimits() (limits []job.SoftLimit) {
	for _, resource := range propagated {
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
			if soft, known = openFiles(); !known {
				continue
			}
		}
		limits = append(limits, job.SoftLimit{Resource: resource, Soft: soft})
	}
	return limits
}

// openFiles is the limit of open files. Go raises ours before anything of this program
// runs (package syscall, rlimit.go) and gives what it found to children only, so a child
// has to tell.
func openFiles() (int64, bool) {
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	text := strings.TrimSpace(string(out))
	if text == "unlimited" {
		return -1, true
	}
	n, bad := strconv.ParseInt(text, 10, 64)
	return n, err == nil && bad == nil
}
