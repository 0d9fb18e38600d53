// Package subprocess runs a program on this machine and waits for its end. An ssh configuration or an option of mpiexec
// may name such a program.
package subprocess

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputTimeout is the maximum time for which processes that a command has left behind may keep the command's output
// open.
const outputTimeout = time.Second

// Run runs a command that exec.CommandContext has created. attr is the result of SessionAttr or GroupAttr. When the
// context ends, Run kills the command and all processes in its process group. If this process dies, only the command
// itself gets a signal.
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
