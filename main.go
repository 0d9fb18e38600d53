// Mpiexec starts parallel programs on many hosts over SSH. See README.md.

// Reading the cgroup's CPU limit takes a tenth of a millisecond of every start, here and
// on each node, and few threads of ours ever run.
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

// stopProcess is how ^Z stops this process. A test takes another way, to see what happens when that
// never comes back.
var stopProcess = suspend

func main() {
	environ := os.Environ()
	cli.SetPath()
	if len(os.Args) > 1 && cli.IsHelper(os.Args[1]) {
		os.Exit(cli.HelperMain(os.Args[1:]))
	}
	resort := new(hardExit)
	caught, signals, pause := make(chan os.Signal, 16), make(chan os.Signal, 16), new(stopState)
	// Go has a thread of its own enable each signal: two dozen changes of threads, which take as long as it
	// takes to read the command line, and so go on beside that.
	catching := make(chan struct{})
	go func() {
		defer close(catching)
		resort.start()
		for _, s := range cli.HandledSignals {
			if s != syscall.SIGHUP || !signal.Ignored(s) { // nohup stays in force (SIG-3)
				signal.Notify(caught, s)
			}
		}
		go pause.relay(caught, signals)
	}()
	os.Exit(cli.Main(context.Background(), cli.FrontEndArgs(os.Args), cli.System{
		In: os.Stdin, Out: cli.Stdout(), Err: os.Stderr, Signals: signals,
		CatchSignal:  func(s os.Signal) { signal.Notify(caught, s) },
		AwaitSignals: func() { <-catching },
		TerminalLent: resort.setRestoreTerminal,
		Suspend:      func() { pause.stopUnlessContinued(stopProcess) }, Environ: cli.FrontEndEnv(os.Args, environ), Getwd: os.Getwd, FS: os.DirFS("/"),
	}))
}
