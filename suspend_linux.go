package main

import (
	"runtime"
	"syscall"
	"unsafe"
)

// suspend stops this process by the signal that a terminal sends, with its default
// action, so that the kernel decides as for any program: in an orphaned process group,
// where no shell could continue us, nothing stops.
//
// Go keeps its handler once it has one, also after signal.Reset (runtime, sigdisable),
// so the action is changed below it for a moment. The signal goes to this very thread,
// which takes it on its way out of the system call: before the handler is back.
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

// setStopAction sets what SIGTSTP does and tells what it did before.
func setStopAction(set, before *[4]uint64) bool {
	const setSize = 8 // of the kernel's signal set, in bytes
	_, _, err := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTSTP),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(before)), setSize, 0, 0)
	return err == 0
}
