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

// HelperMain is the main function of a helper, a reaper, a guard, a relay or a rank of --selftest. It returns the exit
// code.
func HelperMain(args []string) int {
	if !startedByMpiexec(args) {
		System{Err: os.Stderr, Environ: os.Environ()}.newMessagePrinter(os.Stderr, option.JobOptions{}).printError(&usererr.Error{Text: args[0] + " is an internal option: mpiexec uses it to start itself on a host", Remedy: "do not use it; mpiexec --help lists the options"})
		return job.ExitInternal
	}
	code, err := serveHelper(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mpiexec helper: %v\n", err)
	}
	return code
}

// startedByMpiexec reports whether mpiexec has started this process, judging by its arguments and
// environment. A helper has mpiexec's build ID as an argument, and its input is not a terminal. Its output
// may be a terminal: srun -u makes it a pseudoterminal, which passes all bytes unchanged.
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

// dialBackArgs is the number of arguments of a helper that connects to its mpiexec by itself. These are the two
// arguments of every helper, the name of its host, and an address of the machine where the starter runs. The address
// may be empty.
const dialBackArgs = 4

/*
serveHelper runs a helper or its parent, depending on args, and returns the exit code. On another host it is called in
one or two processes:

	--helper BUILD   if package reaper forked at program entry: this process is the helper and calls helper.Serve;
	                 its parent, which waits for it, is the reaper
	                 otherwise (RoleNone): this process is the reaper, and RunReaper starts --helper-child BUILD
	--helper-child   this process is a child of mpiexec, or of RunReaper, and calls helper.Serve
*/
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
	debug.SetGCPercent(400) // a short process with a small heap: collecting costs more than it frees
	streams, err := moveStdStreams()
	if err != nil {
		return job.ExitInternal, err
	}
	var conn io.ReadWriteCloser = streams
	var link helper.Link
	if len(args) == dialBackArgs {
		back, err := dialBack(streams, args[2], args[3])
		switch {
		case err != nil:
			return job.ExitInternal, nil // dialBack has reported it
		case back != nil:
			conn, link = back, helper.LinkOf(back)
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
		return job.ExitInternal, nil // mpiexec is gone or has received the error
	}
	return job.ExitOK, nil
}

// selfTestRank runs a rank of --selftest.
func selfTestRank() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return fmt.Errorf("PMI_FD: %w", err)
	}
	return selftest.Run(os.Getenv, os.NewFile(uintptr(fd), "PMI_FD"), os.Stdin, os.Stdout, signals)
}

// dialBack connects to mpiexec as the helper of host. It reads the join token from its input (package dialback). If
// it cannot connect, it writes the reason to its output, as the delivery script does. It returns nil without an error
// if the helper must use its standard streams instead. When the input ends, the starter's job step has ended, and
// dialBack closes the connection byeTimeout later.
func dialBack(s stdStreams, host, starterAddress string) (net.Conn, error) {
	address, _ := netip.ParseAddr(starterAddress) // the zero value if there is none
	token, err := dialback.ReadJoinToken(s.in)
	if err != nil {
		return nil, err // the step has ended, and no process reads the output
	}
	if token.Secret != "" {
		return dialWithSecret(token, host)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	listen := func() {
		io.Copy(io.Discard, s.in)
		cancel(errStepOver)
	}
	if !token.Streams { // else the input may go on with messages for the helper
		go listen()
	}
	conn, err := dialback.DialBack(ctx, token, host, address)
	switch {
	case err != nil && token.Streams:
		transport.ReportStaysOnStream(s.out, err)
		return nil, nil
	case err != nil:
		transport.ReportCannotDialBack(s.out, host, err)
		return nil, err
	case token.Streams:
		go listen()
	}
	closeAfter(ctx, conn, byeTimeout)
	return conn, nil
}

// dialWithSecret connects to mpiexec as the helper of host. It is used for starters that pass no input. In this case
// token.Secret names the environment variable with the secret (rule RM-38). The helper's standard error goes to the
// output files of the batch job.
func dialWithSecret(token dialback.JoinToken, host string) (net.Conn, error) {
	conn, err := dialback.DialBack(context.Background(), token.WithSecret(os.Getenv(token.Secret)), host, netip.Addr{})
	if err != nil {
		fmt.Fprintf(os.Stderr, "mpiexec: the helper on %s cannot connect to mpiexec: %v\n", host, err)
	}
	return conn, err
}

// byeTimeout is how long the connection to mpiexec stays open after the step's input has ended. mpiexec's Bye message,
// which is sent over the connection, may arrive after the end of the input.
const byeTimeout = time.Second

// closeAfter closes conn after step has ended and delay has passed since then. As a result, mpiexec notices the end
// of the step soon, even if the ranks here still run.
func closeAfter(step context.Context, conn net.Conn, delay time.Duration) {
	context.AfterFunc(step, func() { time.AfterFunc(delay, func() { conn.Close() }) })
}

var errStepOver = errors.New("the job step of the batch system has ended")

// A stdStreams combines standard input and output in one io.ReadWriteCloser.
type stdStreams struct{ in, out *os.File }

func (s stdStreams) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdStreams) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdStreams) Close() error                { s.in.Close(); return s.out.Close() }

// moveStdStreams moves the standard streams to other descriptors and opens /dev/null in their place. This is
// needed because a broken pipe on descriptor 1 would kill a Go program with SIGPIPE (os/signal), and a helper
// must outlive its mpiexec for a while.
func moveStdStreams() (stdStreams, error) {
	var s stdStreams
	for fd, file := range []**os.File{&s.in, &s.out} {
		copied, err := syscall.Dup(fd)
		if err != nil {
			return s, fmt.Errorf("standard streams: %w", err)
		}
		syscall.CloseOnExec(copied)
		*file = os.NewFile(uintptr(copied), "conversation")
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
