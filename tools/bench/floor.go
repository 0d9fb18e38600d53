//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/sshx"
)

// lowerBoundArg is the argument that makes this program do only what is needed to start ranks or to send a
// file:
//
//	--floor ssh PROGRAM HOST,HOST...   run PROGRAM with mpiexec's SSH client alone, in one session per host
//	--floor send FILE HOST,HOST...     send FILE with mpiexec's SSH client alone, in one session per host
//	--floor fork PROGRAM N             fork and exec PROGRAM, N times
const lowerBoundArg = "--floor"

// runLowerBound runs one of the commands that follow lowerBoundArg, and returns the exit code. words[0] is
// "ssh", "send" or "fork".
func runLowerBound(words []string) int {
	if len(words) != 3 {
		fmt.Fprintln(os.Stderr, "floor: three words are needed")
		return 1
	}
	measure := map[string]func(program, where string) error{"ssh": lowerBoundSSH, "send": lowerBoundSend, "fork": lowerBoundFork}[words[0]]
	if err := measure(words[1], words[2]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 1
	}
	return 0
}

// lowerBoundSSH runs a program on all hosts at the same time, over SSH and without a helper.
func lowerBoundSSH(program, hosts string) error {
	return onEach(hosts, func(client *sshx.Client) error {
		session, err := client.Start(context.Background(), program)
		if err != nil {
			return err
		}
		return session.Wait()
	})
}

// onEach logs in to all hosts at the same time and calls do with each connection. hosts contains their names, separated
// by commas. onEach joins the errors of all hosts and returns the result.
func onEach(hosts string, do func(*sshx.Client) error) error {
	user := sshx.User{Name: os.Getenv("USER"), Home: os.Getenv("HOME"), UID: os.Getuid(), Getenv: os.Getenv}
	if user.Name == "" {
		user.Name = "root"
	}
	config, err := sshx.ReadConfig(user.Home+"/.ssh/config", "/etc/ssh/ssh_config", user)
	if err != nil {
		return err
	}
	var dialer sshx.Dialer
	defer dialer.Close()
	local := sshx.NewLocalMachine("/bin/sh", 64)
	defer local.Close()
	names := strings.Split(hosts, ",")
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			target, err := config.Resolve(context.Background(), name, user, local)
			if err == nil {
				errs[i] = onHost(&dialer, target, do)
			} else {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// onHost connects to target, calls do and closes the connection.
func onHost(d *sshx.Dialer, target sshx.Target, do func(*sshx.Client) error) error {
	client, err := d.Dial(context.Background(), target)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(client)
}

// lowerBoundFork starts count processes of the program, and then waits for all of them.
func lowerBoundFork(program, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for range n {
		_, err := syscall.ForkExec(program, []string{program}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil {
			return err
		}
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err == unix.ECHILD {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return err
		}
	}
}
