package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"remshell/cli/option"
	"remshell/job"
	"remshell/launch"
	"remshell/pmiserver"
)

/*
An MPI program that was started by itself calls mpiexec when it wants to spawn others, or
to use names (pmi-wire.md 1.4). It has a job of its own then, on this machine, whose rank 0
is a relay between the program, which waits on a port, and the PMI server:

	program --exec--> mpiexec -pmi_args PORT ...
	   ^                  |  job of one rank
	   |                  v
	   '---- PORT ---- relay --PMI_FD--> server --> spawned ranks

The job ends with the program, and when the job ends, so does the program's connection.
*/

// relayArg is the word by which that rank is started, as those of main.go.
const relayArg = "--helper-relay"

// singletonPort finds the port in the words of such a call: [-v] -pmi_args PORT INTERFACE
// KEY PID.
func singletonPort(args []string) (port string, called bool) {
	i := slices.Index(args[:min(len(args), 2)], "-pmi_args")
	if i < 0 || len(args) != i+5 {
		return "", false
	}
	return args[i+1], true
}

// runSingleton runs the job of a program that has called. If nothing comes of it the program
// is told: it would wait for ever.
func runSingleton(ctx context.Context, port string, sys System, ours int) error {
	line, err := singletonLine(port, sys)
	if err == nil {
		code, failed := runWithHosts(ctx, nil, line, sys, ours)
		if exitCode(code, failed, ours) == job.ExitOK {
			return nil
		}
		err = reportedError{errors.New("the job failed")} // whatever the program's own end is to be, this is ours
	}
	sys.newMessagePrinter(sys.Err, option.JobOptions{}).printError(err)
	launch.RefuseSingleton(port)
	return reportedError{err}
}

// singletonLine is the command line of that job. What variables and the user's file say
// holds, but for where ranks run: this one is here.
func singletonLine(port string, sys System) (option.Line, error) {
	self, err := os.Executable()
	if err != nil {
		return option.Line{}, err
	}
	line, err := option.Mpiexec(signalNumber).Parse([]string{"-host", "localhost", "-n", "1", "-stdin", "none", self, relayArg, port}, optionSources(sys))
	if err != nil {
		return line, err
	}
	line.Job.PMIPort, line.Apps[0].PMI = false, option.PMIOffer(job.PMIOfferPMI1) // the relay has a descriptor
	err = line.MergeLayout()
	return line, err
}

// relayPMI is the rank of that job: it goes to the program, and passes on what is said.
func relayPMI(args []string) error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return fmt.Errorf("PMI_FD: %w", err)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", args[0]), 10*time.Second)
	if err != nil {
		return err
	}
	return pmiserver.RelaySingleton(conn, os.NewFile(uintptr(fd), "PMI_FD"), os.Getenv("MPIEXEC_JOBID"))
}
