//go:build linux && !amd64

package hang

// These stand for system calls that this architecture does not have. No thread waits in a call with such a number.
const (
	callPoll      = -2
	callSelect    = -3
	callEpollWait = -4
)
