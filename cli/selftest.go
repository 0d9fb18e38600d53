package cli

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"remshell/cli/option"
	"remshell/format"
	"remshell/hostlist"
	"remshell/job"
	"remshell/selftest"
	"remshell/usererr"
)

// This file answers --selftest: a job whose ranks are our own program (package selftest), so that a first try needs no MPI.

// selfTestArg is the word by which such a rank is started, as those of main.go.
const selfTestArg = "--helper-selftest"

// runSelfTest runs that job on the hosts of a line, and tells what came of it.
func runSelfTest(ctx context.Context, args []string, table *option.Table, sys System, ours int) (code int, err error) {
	line, err := selfTestLine(args, table, sys)
	if err != nil {
		return 0, err
	}
	results := selftest.NewResults()
	out, signals, over, ended := sys.Out, make(chan os.Signal, 16), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		forwardSignals(sys.Signals, results.Linked(), signals, over)
	}()
	sys.In, sys.Out, sys.Signals = strings.NewReader(selftest.Input+"\n"), results, signals
	code, err = runWithHosts(ctx, args, line, sys, ours)
	close(over)
	<-ended
	if code != job.ExitOK || err != nil {
		return code, err
	}
	if err := results.Err(); err != nil {
		return 0, err
	}
	_, err = io.WriteString(out, results.Text(format.EscapeSentence(hostlist.Fold(results.Hosts()))))
	return job.ExitOK, err
}

// forwardSignals passes our own signals on to a job, and lets its ranks go on when they have reached each other, or end.
func forwardSignals(ours <-chan os.Signal, linked <-chan bool, to chan<- os.Signal, over <-chan struct{}) {
	for {
		var s os.Signal
		select {
		case s = <-ours:
		case all := <-linked:
			if s = syscall.SIGUSR2; all {
				s = syscall.SIGUSR1
			}
		case <-over:
			return
		}
		select {
		case to <- s:
		case <-over:
			return
		}
	}
}

// selfTestDefaults hold where the user says nothing else: two ranks on each host, which share CPUs with all who share them.
var selfTestDefaults = []string{"MPIEXEC_PPN=2", "MPIEXEC_OVERBOOK=share", "MPIEXEC_PIN=no", "MPIEXEC_TIMEOUT=300"}

// selfTestLine is the command line of that job: what is said of hosts and of how they are reached holds, not what is said of output and signals.
func selfTestLine(args []string, table *option.Table, sys System) (option.Line, error) {
	sys.Environ = slices.Concat(selfTestDefaults, sys.Environ)
	line, err := table.Parse(args, optionSources(sys))
	if err != nil {
		return line, err
	}
	line = line.WithoutTopic("Output and input")
	if err := line.MergeLayout(); err != nil {
		return line, err
	}
	if err := checkQueries(line); err != nil {
		return line, err
	}
	if program := line.Apps[0].Program; line.NamesHosts() && program != "" {
		return line, &usererr.Error{Text: "--selftest starts a program of its own, not " + program, Remedy: "name hosts only"}
	}
	if line, err = programAsHosts(line); err != nil {
		return line, err
	}
	j, s := &line.Job, &line.Apps[0]
	s.Program, s.Args = "/proc/self/exe", []string{selfTestArg} // of the helper that starts it
	s.PMI, j.PMIPort = option.PMIOffer(job.PMIOfferPMI1), false // by a descriptor
	j.ForwardSignals, j.LeaderOnly = option.SignalList{}, false
	return line, nil
}
