package cli

import (
	"errors"

	"remshell/fault"
	"remshell/job"
	"remshell/launch"
)

// The codes mpiexec leaves with for reasons of its own (cli.md EXIT-5). Others are in package job,
// and those of the ranks are supervision's.
const (
	exitOK        = 0
	exitFailure   = 125
	exitNoDir     = 127
	exitCannotRun = 126
)

// exitCode is the code for an error of a job that did not start. MPIEXEC_ERROR_CODE
// may put another in the place of 125, so that scripts can tell it from a program's.
func exitCode(err error, failure int) int {
	var cancelled *launch.Cancelled
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &cancelled):
		return 128 + int(cancelled.Signal)
	}
	if code := startCode(err); code != 0 && code != exitFailure {
		return job.Clamp(code, false, failure)
	}
	return failure
}

// startCode is that of a program that could not be started; 0: it was something else.
func startCode(err error) int {
	var start *launch.StartError
	if errors.As(err, &start) {
		return start.Code
	}
	return fault.Code(err)
}
