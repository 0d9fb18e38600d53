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
	"remshell/fault"
	"remshell/helper"
	"remshell/helper/keeper"
	"remshell/helper/probe"
	"remshell/job"
	"remshell/reach"
	"remshell/reach/callback"
	"remshell/selftest"
)

// Helper is the main function of the far end.
func Helper(args []string) int {
	if !called(args) {
		System{Err: os.Stderr, Environ: os.Environ()}.screen(os.Stderr, option.Job{}).report(&fault.Error{Text: args[0] + " is how mpiexec starts itself on a host", Remedy: "there is nothing to type; mpiexec --help lists what there is"})
		return job.ExitInternal
	}
	code, err := serve(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mpiexec helper: %v\n", err)
	}
	return code
}

// called reports whether it is mpiexec that starts us: with its build, and not by hand at a
// terminal. Our output may be one: srun -u has a pseudoterminal there, which passes all bytes on
// as they are.
func called(args []string) bool {
	switch args[0] {
	case keptArg:
		return keeper.Part() == keeper.Keeper
	case guardArg:
		return len(args) == 3
	case relayArg:
		return len(args) == 2
	case selfTestArg:
		return len(args) == 1 && os.Getenv("PMI_FD") != ""
	}
	return (len(args) == 2 || len(args) == callArgs) && reach.IsBuild(args[1]) && !isTerminal(os.Stdin)
}

// callArgs is how many words a helper has that is to call its mpiexec: the usual two, its host, and an address of the
// machine where the starter runs, which may be empty.
const callArgs = 4

func serve(args []string) (int, error) {
	switch args[0] {
	case keeperArg:
		self, err := reach.This()
		if err == nil {
			err = self.Guarded()
		}
		if err != nil {
			return job.ExitInternal, err
		}
		args = append([]string{helperArg, self.Build}, args[2:]...)
		if keeper.Part() == keeper.None {
			return helper.Keep(args)
		}
	case keptArg:
		return helper.Outlive(keeper.Ended())
	case guardArg:
		return job.ExitOK, helper.Guard(args[1:])
	case relayArg:
		if err := relay(args[1:]); err != nil {
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
	streams, err := takeStreams()
	if err != nil {
		return job.ExitInternal, err
	}
	var conn io.ReadWriteCloser = streams
	var link helper.Link
	if len(args) == callArgs {
		called, err := callBack(streams, args[2], args[3])
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
		Build: args[1], Release: Version, Root: probe.Disk(""), Environ: os.Environ(), Signals: signals, Link: link,
	})
	if errors.Is(err, helper.ErrStay) {
		return helper.StayCode, nil
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

// callBack calls mpiexec as the helper of a host, with the invitation that comes by our input (package callback). What
// keeps it from that it says on the output, as the delivery script would. When the input ends, which is when
// the step does, so does the connection, a moment later. Without an error there is none where the streams that we have are ours to speak over.
func callBack(s streams, host, near string) (net.Conn, error) {
	address, _ := netip.ParseAddr(near) // the zero value if there is none
	invited, err := callback.ReadInvitation(s.in)
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
	conn, err := callback.Call(ctx, invited, host, address)
	switch {
	case err != nil && invited.Streams:
		reach.SayStays(s.out, err)
		return nil, nil
	case err != nil:
		reach.SayUncalled(s.out, host, err)
		return nil, err
	case invited.Streams:
		go listen()
	}
	endWith(ctx, conn, lastWords)
	return conn, nil
}

// lastWords is how long mpiexec is heard when the step's input has ended: its Bye comes by another way, and may come later.
const lastWords = time.Second

// endWith ends a connection some time after its step is over. mpiexec hears of that at once, not when the ranks here have ended.
func endWith(step context.Context, conn net.Conn, later time.Duration) {
	context.AfterFunc(step, func() { time.AfterFunc(later, func() { conn.Close() }) })
}

var errStepOver = errors.New("the step is over")

// A streams is our standard input and output as one.
type streams struct{ in, out *os.File }

func (s streams) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s streams) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s streams) Close() error                { s.in.Close(); return s.out.Close() }

// takeStreams moves our standard streams to other descriptors and puts /dev/null in
// their place: a broken pipe on descriptor 1 would kill a Go program by SIGPIPE
// (os/signal), and a helper has to outlive its mpiexec for a while.
func takeStreams() (streams, error) {
	var s streams
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
