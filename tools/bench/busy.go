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

// busyArg makes this program a busy loop, in a session of its own as that of another user
// would be. It ends when its input does, so none outlives the bench, however that ends.
const busyArg = "--busy"

// startBusyLoops starts so many loops, which it numbers; quiet ends them.
func (b *bench) startBusyLoops(loops int) (quiet func(), err error) {
	var inputs []io.Closer
	var running []*exec.Cmd
	quiet = func() {
		for i, cmd := range running {
			inputs[i].Close()
			cmd.Wait()
		}
	}
	for i := range loops {
		cmd := exec.Command(b.self, busyArg, strconv.Itoa(i))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			quiet()
			return nil, fmt.Errorf("busy loop: %w", err)
		}
		inputs, running = append(inputs, in), append(running, cmd)
	}
	return quiet, nil
}

// busyLoop is one busy loop, until its input ends.
func busyLoop() int {
	go func() {
		for {
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	return 0
}
