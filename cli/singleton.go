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
An MPI program that was started without mpiexec (a singleton) starts one when it wants to spawn ranks or to publish
names (pmi-wire.md 1.4). This mpiexec runs a job on this machine, whose rank 0 is a relay between the program, which
listens on a port, and the PMI server:

	program --exec--> mpiexec -pmi_args PORT ...
	   ^                  |  job of one rank
	   |                  v
	   '---- PORT ---- relay --PMI_FD--> server --> spawned ranks

The job ends when the program ends. When the job ends, the program's connection is closed.
*/

// relayArg is the first argument of the relay. The relay is a rank that passes PMI messages between the PMI
// server and a singleton, an MPI process that was started without mpiexec.
const relayArg = "--helper-relay"

// singletonPort returns the port in the arguments with which a singleton, an MPI process without mpiexec,
// starts mpiexec: [-v] -pmi_args PORT INTERFACE KEY PID. isCall is false if the arguments have another form.
func singletonPort(args []string) (port string, isCall bool) {
	i := slices.Index(args[:min(len(args), 2)], "-pmi_args")
	if i < 0 || len(args) != i+5 {
		return "", false
	}
	return args[i+1], true
}

// runSingleton runs a job for a singleton, an MPI process that was started without mpiexec and now calls mpiexec. If
// the job fails, runSingleton reports that to the singleton, which would otherwise wait forever.
func runSingleton(ctx context.Context, port string, sys System, errorCode int) error {
	line, err := singletonLine(port, sys)
	if err == nil {
		code, failed := runWithHosts(ctx, nil, line, sys, errorCode)
		if exitCode(code, failed, errorCode) == job.ExitOK {
			return nil
		}
		err = reportedError{errors.New("the job failed")} // only mpiexec's own exit code follows from it
	}
	sys.newMessagePrinter(sys.Err, option.JobOptions{}).printError(err)
	launch.RefuseSingleton(port)
	return reportedError{err}
}

// singletonLine returns the command line of the job for a singleton, an MPI process that was started
// without mpiexec. Options from variables and the user's file apply, but the rank is always on this
// machine.
func singletonLine(port string, sys System) (option.Line, error) {
	self, err := os.Executable()
	if err != nil {
		return option.Line{}, err
	}
	line, err := option.Mpiexec(signalNumber).Parse([]string{"-host", "localhost", "-n", "1", "-stdin", "none", self, relayArg, port}, optionSources(sys))
	if err != nil {
		return line, err
	}
	line.Job.PMIPort, line.Apps[0].PMI = false, option.PMIOffer(job.PMIOfferPMI1) // the relay uses the descriptor PMI_FD
	err = line.MergeLayout()
	return line, err
}

// relayPMI runs the relay. It connects to the singleton, an MPI process that was started without mpiexec,
// and passes PMI messages between the singleton and the PMI server.
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
