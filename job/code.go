package job

// Exit codes of our own failures (cli.md EXIT-5).
const (
	ExitTimeout  = 124
	ExitInternal = 125
	ExitNoStdout = 141
)

// Clamp is the code that a process ends with: 0 for success and for nothing else. A failure
// that has no code between 1 and 255, as only others can say, is one of ours (TRUST-33).
func Clamp(code int, success bool, ours int) int {
	switch {
	case success:
		return 0
	case code < 1 || code > 255:
		return OurCode(ours)
	}
	return code
}

// OurCode is the code of our own failures: 125, unless MPIEXEC_ERROR_CODE has put another in
// its place.
func OurCode(ours int) int {
	if ours == 0 {
		return ExitInternal
	}
	return ours
}
