// Package subprocess runs a program of this machine to its end, such as a command that an ssh configuration or an option names.
package subprocess

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputTimeout is how long a child that goes on may keep the output of a command that has ended.
const outputTimeout = time.Second

// Run runs a command that exec.CommandContext has made, with Session or Group. When the context ends, the command is killed with all that
// it has started in its process group. When this process is killed, the command alone gets a signal.
func Run(cmd *exec.Cmd, attr *syscall.SysProcAttr) error {
	cmd.SysProcAttr = attr
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputTimeout
	runtime.LockOSThread() // that signal comes when the thread ends that has started the command
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it exited with 0
	}
	return err
}
