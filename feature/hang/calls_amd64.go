//go:build linux

package hang

import "golang.org/x/sys/unix"

// These are the numbers of system calls that newer architectures do not have.
const (
	callPoll      = unix.SYS_POLL
	callSelect    = unix.SYS_SELECT
	callEpollWait = unix.SYS_EPOLL_WAIT
)
