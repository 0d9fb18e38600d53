package cli

import (
	"errors"
	"fmt"
	"strconv"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/reserve"
)

// exitCode is the code that mpiexec leaves with, whoever wants to know: the shell, --report and
// --json (TRUST-33). code is that of the ranks, as the screen has it, or what was found; it counts
// unless there is an error. ours stands for our own failures; 0: as ever.
func exitCode(code int, err error, ours int) int {
	var cancelled *reserve.Cancelled
	switch {
	case err == nil:
		return job.Clamp(code, code == job.ExitOK, ours)
	case errors.As(err, &cancelled):
		return job.Signal(cancelled.Signal).Status()
	}
	if code := fault.Code(err); code != 0 && code != job.ExitInternal {
		return job.Clamp(code, false, ours)
	}
	return job.OurCode(ours)
}

// ourCode is the exit code of our own failures: 125, or what the user puts in its
// place so that scripts can tell it from a program's.
func ourCode(text string) (int, error) {
	if text == "" {
		return job.ExitInternal, nil
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 1 || code > 255 {
		return 0, &fault.Error{Text: fmt.Sprintf("MPIEXEC_ERROR_CODE: %q is not an exit code", text), Remedy: "allowed: 1 to 255"}
	}
	return code, nil
}
