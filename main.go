// Mpiexec starts parallel programs on many hosts over SSH. See README.md.

// Reading the cgroup's CPU limit would take a tenth of a millisecond of each start, here and on each node, for a program
// that runs few threads.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"remshell/cli"
)

// stopProcess stops this process when the user types ^Z. A test replaces it with a function that never returns.
var stopProcess = suspend

func main() {
	environ := os.Environ()
	cli.SetPath()
	if len(os.Args) > 1 && cli.IsHelper(os.Args[1]) {
		os.Exit(cli.HelperMain(os.Args[1:]))
	}
	hard := new(hardExit)
	caught, signals, stop := make(chan os.Signal, 16), make(chan os.Signal, 16), new(stopState)
	// For each signal, Notify switches to a thread of the Go runtime and back. For all signals that takes as long as
	// reading the command line, and so is done in parallel.
	catching := make(chan struct{})
	go func() {
		defer close(catching)
		hard.start()
		for _, s := range cli.HandledSignals {
			if s != syscall.SIGHUP || !signal.Ignored(s) { // nohup stays in force (SIG-3)
				signal.Notify(caught, s)
			}
		}
		go stop.relay(caught, signals)
	}()
	os.Exit(cli.Main(context.Background(), cli.FrontEndArgs(os.Args), cli.System{
		In: os.Stdin, Out: cli.Stdout(), Err: os.Stderr, Signals: signals,
		CatchSignal:  func(s os.Signal) { signal.Notify(caught, s) },
		AwaitSignals: func() { <-catching },
		TerminalLent: hard.setRestoreTerminal,
		Suspend:      func() { stop.stopUnlessContinued(stopProcess) }, Environ: cli.FrontEndEnv(os.Args, environ), Getwd: os.Getwd, FS: os.DirFS("/"),
	}))
}
