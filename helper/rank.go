//go:build linux

package helper

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/pin"
	"remshell/wire"
)

// A rank is one process of the job on this node, from its plan to its exit. All but
// pmiState belongs to the session's goroutine.
type rank struct {
	group   *group
	number  int          // in the job
	plan    job.RankPlan // in the group
	path    string       // of the program on this node
	staged  string       // the parcel that is the program; empty: none is
	tty     bool         // it has a pseudo-terminal
	argv    []string
	env     []string // of its app; its place is added at the start
	dir     string
	pid     int // 0: not started
	floor   int64
	started time.Time
	dying   bool      // it was about to end when it was told to
	exit    *job.Exit // set when reaped

	in       *sink // nil: stdin is /dev/null
	out, err *source
	pmi      parley
	visit    *visit       // that is pmi, if the rank comes in by the port
	id       int          // its PMI_ID then
	pmiState atomic.Int32 // a job.PMIState, set by the goroutine that serves pmi
	said     bool         // all it said before its end was sent

	born  chan struct{} // closed when mpiexec was told that it runs
	talk  sync.Mutex    // guards ended
	ended bool          // mpiexec was told so
}

// pipes are the descriptors of one rank while it is being started: ours, and the
// child's, which close once it runs.
type pipes struct {
	ours   [4]int // write end of stdin or -1, read ends of stdout, stderr, PMI
	theirs [4]int
}

// openPipes opens the streams of a rank that has no terminal, and its PMI connection.
func openPipes(stdin, merge bool) (pipes, error) {
	return opened(func(p *pipes) error { return p.openStreams(stdin, merge) })
}

// opened opens streams and the PMI connection of a rank. Only our ends do not block: that
// flag belongs to the open file, which the child would share.
func opened(streams func(*pipes) error) (p pipes, err error) {
	p = pipes{ours: [4]int{-1, -1, -1, -1}, theirs: [4]int{-1, -1, -1, -1}}
	defer func() {
		if err != nil {
			p.close(p.ours[:])
			p.close(p.theirs[:])
		}
	}()
	if err = streams(&p); err != nil {
		return p, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return p, err
	}
	p.ours[3], p.theirs[3] = pair[0], pair[1]
	for _, fd := range p.ours {
		if fd >= 0 {
			if err = unix.SetNonblock(fd, true); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func (p *pipes) openStreams(stdin, merge bool) (err error) {
	var fds [2]int
	if stdin {
		if err = unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		p.theirs[0], p.ours[0] = fds[0], fds[1]
	} else if p.theirs[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	for i := 1; i <= 2; i++ {
		if err = unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		p.ours[i], p.theirs[i] = fds[0], fds[1]
	}
	if merge { // the other pipe is left without a writer, and so at its end
		err = unix.Dup3(p.theirs[1], p.theirs[2], unix.O_CLOEXEC)
	}
	return err
}

// withoutPMI closes the PMI connection of a rank that comes in by the port.
func (p *pipes) withoutPMI() {
	p.close(p.ours[3:])
	p.close(p.theirs[3:])
}

func (p *pipes) close(fds []int) {
	for i, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
			fds[i] = -1
		}
	}
}

// open opens the streams and the PMI connection.
func (r *rank) open(where place) (pipes, error) {
	if !r.tty {
		return openPipes(r.in != nil, where.merge)
	}
	return opened(func(p *pipes) error { return p.openTerminal(r.in != nil, where.window) })
}

// A birth is what came of the start of a rank.
type birth struct {
	pid        int
	floor      int64 // what the kernel may count as the rank's memory, and was ours, in bytes
	pipes      pipes // our ends
	cpus, mems []int // to which the kernel has bound it; nil: it has what the helper has
}

// fork starts the rank's process. It runs on the starter's thread and changes nothing
// of the rank.
func (r *rank) fork(where place, sys System, b *binder, limits []lent) (birth, *startError) {
	cpus, err := b.bindCPUs(r.plan.CPUs)
	if err != nil {
		return birth{}, unbindable(r.plan.CPUs, err)
	}
	p, err := r.open(where)
	if err != nil {
		return birth{}, &startError{exitInternal, "no descriptors for its streams: " + err.Error(), "see ulimit -n there"}
	}
	where.cpus = cpus
	if where.pmiFD = 3; r.visit != nil {
		where.pmiFD = 0
		p.withoutPMI()
	}
	s := spawn{terminal: r.tty, path: r.path, argv: r.argv, env: rankEnv(r.env, where), dir: r.dir, files: p.theirs,
		death: sys.death(), session: where.session}
	mems := b.bindMemory(r.plan.Mems, r.plan.MemMode)
	var pid int
	while(limits, func() { pid, err = s.run() })
	b.releaseMemory()
	p.close(p.theirs[:])
	if err != nil {
		p.close(p.ours[:])
		return birth{}, execFailed(err, r.path, r.argv[0], r.argv, s.env)
	}
	return birth{pid, ownPeak(), p, cpus, mems}, nil
}

// unbindable is the failure of a rank that would not have its CPUs for itself: to go on
// would share cores (placement.md 7.7).
func unbindable(cpus []int, err error) *startError {
	return &startError{exitInternal, fmt.Sprintf("cannot be bound to CPUs %s: %v", pin.Text(cpus), err),
		"see that they are online and in the CPU set there, or use --no-pin"}
}

// attach puts goroutines on our ends of the rank's pipes.
func (r *rank) attach(p pipes, window int, send func(wire.Message) error) {
	file := func(i int, name string) *os.File { return os.NewFile(uintptr(p.ours[i]), name) }
	if r.in != nil {
		go r.in.run(file(0, "stdin"))
	}
	r.out = newSource(r.number, wire.Stdout, file(1, "stdout"), window, send)
	r.err = newSource(r.number, wire.Stderr, file(2, "stderr"), window, send)
	go r.out.run()
	go r.err.run()
	if r.visit != nil {
		r.pmi = r.visit
	} else {
		r.pmi = newPMIConn(file(3, "PMI_FD"))
	}
}

// alive reports whether the rank was started and not yet reaped.
func (r *rank) alive() bool { return r.pid != 0 && r.exit == nil }

// reaped notes how the rank ended. The usage is that of the rank and of the
// children it waited for; seen is the largest memory that was seen of it while it ran.
func (r *rank) reaped(status unix.WaitStatus, used unix.Rusage, seen int64, now time.Time) {
	r.exit = &job.Exit{
		Rank:  r.number,
		Usage: usageOf(&used, now.Sub(r.started)),
	}
	if r.exit.Usage.MaxRSS <= r.floor { // it may be ours
		r.exit.Usage.MaxRSS = seen
	}
	if status.Signaled() {
		r.exit.Signal = int(status.Signal())
		r.exit.Core = status.CoreDump()
	} else {
		r.exit.Code = status.ExitStatus()
	}
}

// forget lets the rank talk into nothing from now on.
func (r *rank) forget() {
	if r.pid == 0 {
		return
	}
	r.out.forget()
	r.err.forget()
	if r.in != nil {
		r.in.close()
	}
}

// lastWords asks for the rank's remaining output and calls done when it was sent
// (IO-10). It may take as long as its reader likes, unless the rank has failed or the job
// is being ended: then, or when hurry closes, lastWords is the limit. What the rank last
// said on PMI counts too, or an abort would be taken for a crash.
func (r *rank) lastWords(hurry <-chan struct{}, done func()) {
	r.out.lastWord()
	r.err.lastWord()
	r.pmi.lastWord()
	if r.in != nil {
		r.in.close()
	}
	if r.exit.Status() != 0 {
		now := make(chan struct{})
		close(now)
		hurry = now
	}
	go func() {
		var late <-chan time.Time
		for _, said := range []<-chan struct{}{r.pmi.said(), r.out.drained, r.err.drained} {
			for waiting := true; waiting; {
				select {
				case <-said:
					waiting = false
				case <-hurry:
					hurry, late = nil, time.After(lastWords)
				case <-late:
					done()
					return
				}
			}
		}
		done()
	}()
}
