package cli

import (
	"errors"
	"fmt"
	"strconv"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/reserve"
)

// The codes mpiexec leaves with for reasons of its own (cli.md EXIT-5). Others are in package job,
// and those of the ranks are supervision's.
const (
	exitOK        = 0
	exitFailure   = 125
	exitCannotRun = 126
)

// exitCode is the code that mpiexec leaves with, whoever wants to know: the shell, --report and
// --json (TRUST-33). code is that of the ranks, as the screen has it, or what was found; it counts
// unless there is an error. ours stands for our own failures; 0: as ever.
func exitCode(code int, err error, ours int) int {
	var cancelled *reserve.Cancelled
	switch {
	case err == nil:
		return job.Clamp(code, code == exitOK, ours)
	case errors.As(err, &cancelled):
		return 128 + int(cancelled.Signal)
	}
	if code := fault.Code(err); code != 0 && code != exitFailure {
		return job.Clamp(code, false, ours)
	}
	return job.OurCode(ours)
}

// ourCode is the exit code of our own failures: 125, or what the user puts in its
// place so that scripts can tell it from a program's.
func ourCode(text string) (int, error) {
	if text == "" {
		return exitFailure, nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, &fault.Error{Text: fmt.Sprintf("MPIEXEC_ERROR_CODE: %q is not an exit code", text), Remedy: "allowed: 1 to 255"}
	}
	return code, nil
}
