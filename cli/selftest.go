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

// This file implements --selftest: a job whose ranks are this program itself (package selftest), so that a first try
// needs no MPI program.

// selfTestArg is the first argument of a process that is a rank of --selftest.
const selfTestArg = "--helper-selftest"

// runSelfTest runs --selftest on the hosts that a command line names, and prints the result.
func runSelfTest(ctx context.Context, args []string, table *option.Table, sys System, errorCode int) (code int, err error) {
	line, err := selfTestLine(args, table, sys)
	if err != nil {
		return 0, err
	}
	results := selftest.NewResults()
	out, userSignals := sys.Out, sys.Signals // sys gets others for the job
	signals, over, stopped := make(chan os.Signal, 16), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		forwardSignals(userSignals, results.Linked(), signals, over)
	}()
	sys.In, sys.Out, sys.Signals = strings.NewReader(selftest.Input+"\n"), results, signals
	code, err = runWithHosts(ctx, args, line, sys, errorCode)
	close(over)
	<-stopped
	if code != job.ExitOK || err != nil {
		return code, err
	}
	if err := results.Err(); err != nil {
		return 0, err
	}
	_, err = io.WriteString(out, results.Text(format.EscapeSentence(hostlist.Fold(results.Hosts()))))
	return job.ExitOK, err
}

// forwardSignals passes received signals on to the job, through target, until done is closed. When linked delivers
// true, all ranks have connected to each other; forwardSignals then sends SIGUSR1, and the ranks continue. When it
// delivers false, forwardSignals sends SIGUSR2, and the ranks end.
func forwardSignals(received <-chan os.Signal, linked <-chan bool, target chan<- os.Signal, done <-chan struct{}) {
	for {
		var s os.Signal
		select {
		case s = <-received:
		case all := <-linked:
			if s = syscall.SIGUSR2; all {
				s = syscall.SIGUSR1
			}
		case <-done:
			return
		}
		select {
		case target <- s:
		case <-done:
			return
		}
	}
}

// selfTestDefaults are default settings of --selftest, which the user may override: ranks may share CPUs, and
// are not bound.
var selfTestDefaults = []string{"MPIEXEC_OVERBOOK=share", "MPIEXEC_PIN=no", "MPIEXEC_TIMEOUT=300"}

// selfTestLine returns the command line of the self-test. It contains the options that name hosts or say how to reach
// them. It omits options about output and signals.
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
		return line, &usererr.Error{Text: "--selftest starts its own program, not " + program, Remedy: "give only hosts as arguments"}
	}
	if line, err = programAsHosts(line); err != nil {
		return line, err
	}
	j, s := &line.Job, &line.Apps[0]
	_, mapped := line.Origin("map-by")
	switch {
	case s.PPN > 0:
	case s.N == 0:
		s.PPN = 2
	case !mapped && j.Loop == "" && j.RankFile == "" && j.RankMap == "":
		j.Loop = "yes" // so that each host gets a rank if there are enough
	}
	s.Program, s.Args = "/proc/self/exe", []string{selfTestArg} // the executable of the helper that starts the rank
	s.PMI, j.PMIPort = option.PMIOffer(job.PMIOfferPMI1), false // the rank uses the descriptor PMI_FD
	j.ForwardSignals, j.LeaderOnly = option.SignalList{}, false
	return line, nil
}
