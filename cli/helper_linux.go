package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"remshell/cli/option"
	"remshell/helper"
	"remshell/helper/probe"
	"remshell/helper/reaper"
	"remshell/job"
	"remshell/selftest"
	"remshell/transport"
	"remshell/transport/dialback"
	"remshell/usererr"
)

// HelperMain is the main function of the far end.
func HelperMain(args []string) int {
	if !startedByMpiexec(args) {
		System{Err: os.Stderr, Environ: os.Environ()}.newMessagePrinter(os.Stderr, option.JobOptions{}).printError(&usererr.Error{Text: args[0] + " is how mpiexec starts itself on a host", Remedy: "there is nothing to type; mpiexec --help lists what there is"})
		return job.ExitInternal
	}
	code, err := serveHelper(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mpiexec helper: %v\n", err)
	}
	return code
}

// startedByMpiexec reports whether it is mpiexec that starts us: with its build, and not by hand at a
// terminal. Our output may be one: srun -u has a pseudoterminal there, which passes all bytes on
// as they are.
func startedByMpiexec(args []string) bool {
	switch args[0] {
	case reaperArg:
		return reaper.CurrentRole() == reaper.RoleReaper
	case guardArg:
		return len(args) == 3
	case relayArg:
		return len(args) == 2
	case selfTestArg:
		return len(args) == 1 && os.Getenv("PMI_FD") != ""
	}
	return (len(args) == 2 || len(args) == dialBackArgs) && transport.IsBuildID(args[1]) && !isTerminal(os.Stdin)
}

// dialBackArgs is how many words a helper has that is to call its mpiexec: the usual two, its host, and an address of the
// machine where the starter runs, which may be empty.
const dialBackArgs = 4

func serveHelper(args []string) (int, error) {
	switch args[0] {
	case reaperStartArg:
		self, err := transport.RunningBinary()
		if err == nil {
			err = self.CheckCache()
		}
		if err != nil {
			return job.ExitInternal, err
		}
		args = append([]string{helperArg, self.Build}, args[2:]...)
		if reaper.CurrentRole() == reaper.RoleNone {
			return helper.RunReaper(args)
		}
	case reaperArg:
		return helper.CleanUpAfterHelper(reaper.HelperStatus())
	case guardArg:
		return job.ExitOK, helper.RunGuard(args[1:])
	case relayArg:
		if err := relayPMI(args[1:]); err != nil {
			return job.ExitInternal, err
		}
		return job.ExitOK, nil
	case selfTestArg:
		if err := selfTestRank(); err != nil {
			return job.ExitInternal, err
		}
		return job.ExitOK, nil
	}
	runtime.GOMAXPROCS(2)   // the node belongs to the ranks
	debug.SetGCPercent(400) // short life, small heap: collecting costs more than it frees
	streams, err := moveStdStreams()
	if err != nil {
		return job.ExitInternal, err
	}
	var conn io.ReadWriteCloser = streams
	var link helper.Link
	if len(args) == dialBackArgs {
		called, err := dialBack(streams, args[2], args[3])
		switch {
		case err != nil:
			return job.ExitInternal, nil // it was told
		case called != nil:
			conn, link = called, helper.LinkOf(called)
		}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGXCPU,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT)
	err = helper.Serve(context.Background(), conn, helper.System{
		Build: args[1], Release: Version, Root: probe.RootFS(""), Environ: os.Environ(), Signals: signals, Link: link,
	})
	if errors.Is(err, helper.ErrLeaveProcesses) {
		return helper.LeaveProcessesCode, nil
	}
	if err != nil {
		return job.ExitInternal, nil // mpiexec is gone, or was told: nobody reads it here
	}
	return job.ExitOK, nil
}

// selfTestRank is a rank of --selftest.
func selfTestRank() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return fmt.Errorf("PMI_FD: %w", err)
	}
	return selftest.Run(os.Getenv, os.NewFile(uintptr(fd), "PMI_FD"), os.Stdin, os.Stdout, signals)
}

// dialBack calls mpiexec as the helper of a host, with the invitation that comes by our input (package callback). What
// keeps it from that it says on the output, as the delivery script would. When the input ends, which is when
// the step does, so does the connection, a moment later. Without an error there is none where the streams that we have are ours to speak over.
func dialBack(s stdStreams, host, near string) (net.Conn, error) {
	address, _ := netip.ParseAddr(near) // the zero value if there is none
	invited, err := dialback.ReadJoinToken(s.in)
	if err != nil {
		return nil, err // the step has ended: nobody hears of it
	}
	ctx, over := context.WithCancelCause(context.Background())
	listen := func() {
		io.Copy(io.Discard, s.in)
		over(errStepOver)
	}
	if !invited.Streams { // else what follows may be for us
		go listen()
	}
	conn, err := dialback.DialBack(ctx, invited, host, address)
	switch {
	case err != nil && invited.Streams:
		transport.ReportStaysOnStream(s.out, err)
		return nil, nil
	case err != nil:
		transport.ReportCannotDialBack(s.out, host, err)
		return nil, err
	case invited.Streams:
		go listen()
	}
	closeAfter(ctx, conn, byeTimeout)
	return conn, nil
}

// byeTimeout is how long mpiexec is heard when the step's input has ended: its Bye comes by another way, and may come later.
const byeTimeout = time.Second

// closeAfter ends a connection some time after its step is over. mpiexec hears of that at once, not when the ranks here have ended.
func closeAfter(step context.Context, conn net.Conn, later time.Duration) {
	context.AfterFunc(step, func() { time.AfterFunc(later, func() { conn.Close() }) })
}

var errStepOver = errors.New("the step is over")

// A stdStreams is our standard input and output as one.
type stdStreams struct{ in, out *os.File }

func (s stdStreams) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdStreams) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdStreams) Close() error                { s.in.Close(); return s.out.Close() }

// moveStdStreams moves our standard streams to other descriptors and puts /dev/null in
// their place: a broken pipe on descriptor 1 would kill a Go program by SIGPIPE
// (os/signal), and a helper has to outlive its mpiexec for a while.
func moveStdStreams() (stdStreams, error) {
	var s stdStreams
	for fd, place := range []**os.File{&s.in, &s.out} {
		copied, err := syscall.Dup(fd)
		if err != nil {
			return s, fmt.Errorf("standard streams: %w", err)
		}
		syscall.CloseOnExec(copied)
		*place = os.NewFile(uintptr(copied), "conversation")
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return s, err
	}
	defer null.Close()
	for fd := range 2 {
		if err := syscall.Dup3(int(null.Fd()), fd, 0); err != nil {
			return s, err
		}
	}
	return s, nil
}
