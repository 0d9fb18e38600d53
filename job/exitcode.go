package job

// Exit codes of our own (cli.md EXIT-5), those of env(1), timeout(1) and the shells.
const (
	ExitOK        = 0
	ExitTimeout   = 124 // -timeout struck
	ExitInternal  = 125 // a failure of ours, unless MPIEXEC_ERROR_CODE has put another in its place
	ExitCannotRun = 126 // the program is there and cannot be executed
	ExitNotFound  = 127 // there is no such program, or no such working directory
	ExitNoStdout  = 141 // nobody reads our output any more: 128 and SIGPIPE
)

// Status is the exit code that a shell shows of a process that died of a signal.
func (s Signal) Status() int { return 128 + int(s) }

// StartFailureCode is the exit code of a start that failed, of those that there are (EXIT-5): what a
// host says beside them is a failure of ours.
func StartFailureCode(code int) int {
	if code == ExitCannotRun || code == ExitNotFound {
		return code
	}
	return ExitInternal
}

// ClampExitCode is the code that a process ends with: 0 for success and for nothing else. A failure
// that has no code between 1 and 255, as only others can say, is one of ours (TRUST-33).
func ClampExitCode(code int, success bool, ours int) int {
	switch {
	case success:
		return ExitOK
	case code < 1 || code > 255:
		return InternalErrorCode(ours)
	}
	return code
}

// InternalErrorCode is the code of our own failures: 125, unless MPIEXEC_ERROR_CODE has put another in
// its place.
func InternalErrorCode(ours int) int {
	if ours == 0 {
		return ExitInternal
	}
	return ours
}
