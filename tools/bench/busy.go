//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// busyArg is the argument with which bench starts itself as a busy loop, which uses one CPU. This process has a session
// of its own, as a process of another user would. It exits when its standard input is closed, so it ends with bench
// even if bench is killed.
const busyArg = "--busy"

// startBusyLoops starts the given number of busy loops. The returned function ends the loops and waits until they
// have ended.
func (b *bench) startBusyLoops(count int) (stop func(), err error) {
	var inputs []io.Closer
	var running []*exec.Cmd
	stop = func() {
		for i, cmd := range running {
			inputs[i].Close()
			cmd.Wait()
		}
	}
	for i := range count {
		cmd := exec.Command(b.self, busyArg, strconv.Itoa(i))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("busy loop: %w", err)
		}
		inputs, running = append(inputs, in), append(running, cmd)
	}
	return stop, nil
}

// busyLoop uses one CPU until standard input is closed. It returns the exit code.
func busyLoop() int {
	go func() {
		for {
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	return 0
}
