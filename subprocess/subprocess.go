// Package subprocess runs a program on this machine to its end, such as a command of an ssh
// configuration or an option.
package subprocess

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputTimeout limits how long a remaining child may keep the output of a command open after the
// command's end.
const outputTimeout = time.Second

// Run runs a command from exec.CommandContext. attr is SessionAttr or GroupAttr. When the context ends, the command
// and all processes in its process group are killed. When this process dies, only the command gets a signal.
func Run(cmd *exec.Cmd, attr *syscall.SysProcAttr) error {
	cmd.SysProcAttr = attr
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputTimeout
	runtime.LockOSThread() // the parent-death signal is sent when the thread ends that started the command
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command exited with 0
	}
	return err
}
