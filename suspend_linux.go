package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// suspend stops this process with SIGTSTP and the signal's default action. The kernel then decides whether to
// stop the process, as for any program. The kernel does not stop a process in an orphaned process group, since
// no shell could continue the process.
//
// Go keeps its handler for a signal even after signal.Reset (runtime, sigdisable). So suspend sets the default
// action with a system call, and restores the handler afterwards. It sends the signal to the calling thread.
// The thread handles the signal when it returns from the system call, before the handler is set again.
func suspend() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, before [4]uint64 // struct sigaction of the kernel; all zero is SIG_DFL
	if !setStopAction(&byDefault, &before) {
		return
	}
	syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGTSTP)
	setStopAction(&before, &byDefault)
}

// setStopAction sets the action for SIGTSTP to *action, and stores the previous action in *old. It returns false if the
// system call fails.
func setStopAction(action, old *[4]uint64) bool {
	const setSize = 8 // size of the kernel's signal set, in bytes
	_, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
	return err == 0
}
