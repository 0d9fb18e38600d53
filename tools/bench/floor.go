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

// floorArg makes this program the least that could start the ranks:
//
//	--floor ssh PROGRAM HOST,HOST...   our SSH client alone, one session per host
//	--floor fork PROGRAM N             fork and exec, N times
const floorArg = "--floor"

func floor(words []string) int {
	if len(words) != 3 {
		fmt.Fprintln(os.Stderr, "floor: three words are needed")
		return 1
	}
	way := map[string]func(program, where string) error{"ssh": floorSSH, "fork": floorFork}[words[0]]
	if err := way(words[1], words[2]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 1
	}
	return 0
}

// floorSSH runs the program on all hosts at once, without helper and protocol.
func floorSSH(program, hosts string) error {
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
	names := strings.Split(hosts, ",")
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = runOn(&dialer, config, user, name, program) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func runOn(d *sshx.Dialer, config *sshx.Config, user sshx.User, name, program string) error {
	target, err := config.Resolve(name, user)
	if err != nil {
		return err
	}
	client, err := d.Dial(context.Background(), target)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.Start(context.Background(), program)
	if err != nil {
		return err
	}
	return session.Wait()
}

// floorFork starts all processes, and then waits for them.
func floorFork(program, count string) error {
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
