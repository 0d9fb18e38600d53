// Reaped is a helper for tests, which does what its third argument says, with the real reaper, or the real guard.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"remshell/helper"
	"remshell/helper/reaper"
	"remshell/proc"
)

// blocked is the set of signals that the first thread blocks. It is read before Go changes the set.
var blocked = func() string {
	text, _ := os.ReadFile("/proc/thread-self/status")
	_, line, _ := strings.Cut(string(text), "SigBlk:\t")
	line, _, _ = strings.Cut(line, "\n")
	return line
}()

// memory keeps the memory of a greedy helper.
var memory [][]byte

func main() {
	switch {
	case os.Args[1] == "--helper" && reaper.CurrentRole() == reaper.RoleNone:
		exit(helper.RunReaper(append([]string{"--helper-child"}, os.Args[2:]...)))
	case os.Args[1] == "--reaper" && reaper.CurrentRole() == reaper.RoleReaper:
		exit(helper.CleanUpAfterHelper(reaper.HelperStatus()))
	case os.Args[1] == "--helper-guard":
		exit(0, helper.RunGuard(os.Args[2:]))
	case os.Args[1] == "--helper" || os.Args[1] == "--helper-child":
		runHelper(os.Args[2])
	}
	exit(100, fmt.Errorf("this is no part of it: %q", os.Args))
}

func exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// startOrphan starts a process that outlives the helper, with a session and an environment of its own.
func startOrphan(cmd *exec.Cmd) (pid int) {
	cmd.SysProcAttr, cmd.Env = &syscall.SysProcAttr{Setsid: true}, []string{"A=B", "PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		exit(100, err)
	}
	return cmd.Process.Pid
}

// runHelper prints its PID, its parent's, that of its orphan or 0, and its blocked signals. It exits with the code that
// it reads, or on SIGTERM.
func runHelper(what string) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	orphan := 0
	switch what {
	case "orphan", "stay":
		orphan = startOrphan(exec.Command("/bin/sleep", "100000"))
	case "stubborn": // prints a line on SIGTERM, and does not end
		cmd := exec.Command("/bin/sh", "-c", `exec 3>&2 2>/dev/null; trap 'echo asked to end >&3' TERM; echo ready; while :; do sleep 1 & wait; done`)
		cmd.Stderr = os.Stdout
		out, err := cmd.StdoutPipe()
		if err != nil {
			exit(100, err)
		}
		orphan = startOrphan(cmd)
		bufio.NewReader(out).ReadString('\n')
	}
	denied := proc.CountDenials(os.DirFS("/"))
	reaper.NoteCounts(reaper.Counts{Group: int64(denied.CgroupKills), Machine: int64(denied.MachineKills)})
	fmt.Println(os.Getpid(), os.Getppid(), orphan, blocked)
	go func() {
		<-terminated
		fmt.Println("got SIGTERM")
		os.Exit(0)
	}()
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	for what == "greedy" { // uses memory until it is killed
		memory = append(memory, bytes.Repeat([]byte{1}, 1<<20))
	}
	code, _ := strconv.Atoi(line[:max(0, len(line)-1)])
	os.Exit(code)
}
