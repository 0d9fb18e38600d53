package job

// These are the exit codes of mpiexec itself, as opposed to those of ranks (cli.md EXIT-5). env(1), timeout(1)
// and shells use the same codes.
const (
	ExitOK        = 0
	ExitTimeout   = 124 // the time of -timeout was over
	ExitInternal  = 125 // mpiexec itself failed; MPIEXEC_ERROR_CODE sets another code
	ExitCannotRun = 126 // the program exists and cannot be executed
	ExitNotFound  = 127 // the program or the working directory does not exist
	ExitNoStdout  = 141 // stdout was closed by its reader: 128 + SIGPIPE
)

// Status returns the exit code by which a shell reports a process that the signal s has killed, which is 128 + s.
func (s Signal) Status() int { return 128 + int(s) }

// StartFailureCode returns mpiexec's exit code for a rank that could not be started (rule EXIT-5). code is the code
// that the host has reported. If code is neither ExitCannotRun nor ExitNotFound, the result is ExitInternal.
func StartFailureCode(code int) int {
	if code == ExitCannotRun || code == ExitNotFound {
		return code
	}
	return ExitInternal
}

// ClampExitCode returns an exit code that mpiexec may use. It is 0 if and only if success is true. If the
// code of a failure is not between 1 and 255, the result is InternalErrorCode(errorCode). Only a faulty
// helper reports such codes (rule TRUST-33).
func ClampExitCode(code int, success bool, errorCode int) int {
	switch {
	case success:
		return ExitOK
	case code < 1 || code > 255:
		return InternalErrorCode(errorCode)
	}
	return code
}

// InternalErrorCode returns the exit code for mpiexec's own failures. errorCode is the value of
// MPIEXEC_ERROR_CODE. If it is 0, the exit code is 125.
func InternalErrorCode(errorCode int) int {
	if errorCode == 0 {
		return ExitInternal
	}
	return errorCode
}
