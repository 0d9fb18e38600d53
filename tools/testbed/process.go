//go:build linux

package testbed

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Process is one running process, with its pid as seen by us.
type Process struct {
	PID, Parent int
	UID         int
	Args        []string
}

// markName is the environment variable that tells the hosts of one machine apart; its
// value is mark.
const markName = "REMSHELL_FIELD"

func (f *Cluster) markOf(host string) string { return f.State + ":" + host }

// Processes lists what runs on a host, sessions of its sshd included, but neither its
// process 1 and what it waits for nor the listening sshd nor a batch system's daemon nor the dead that nobody has waited for.
//
// With the other kinds it is what a session of the host has started: whatever has the
// host's mark in its environment, or an ancestor that has it. A process that has lost
// both, an orphan with a changed environment, is not found.
func (f *Cluster) Processes(host string) ([]Process, error) {
	h, err := f.Host(host)
	if err != nil {
		return nil, err
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	on := f.marked(all, f.markOf(host))
	if f.Kind == Namespaces {
		space := namespace(h.Init, "pid")
		if space == "" {
			return nil, errors.New("field " + f.Name + ": " + host + ": is gone")
		}
		on = func(p Process) bool {
			return p.PID != h.Init && !isInitChild(p, h.Init) && namespace(p.PID, "pid") == space
		}
	}
	return slices.DeleteFunc(all, func(p Process) bool { return !on(p) || isListener(p) || isBatchDaemon(p) }), nil
}

// isInitChild knows the process for which process 1 of a host waits (scripts/host.sh).
func isInitChild(p Process, init int) bool {
	return p.Parent == init && slices.Equal(p.Args, []string{"sleep", "infinity"})
}

// isListener knows sshd by the title it gives itself (sshd.c, "[listener]").
func isListener(p Process) bool {
	return len(p.Args) > 0 && strings.HasPrefix(p.Args[0], "sshd: ") && strings.Contains(p.Args[0], "[listener]")
}

// isBatchDaemon knows slurmd, sge_execd and HTCondor's daemons, but not what they start for a job.
func isBatchDaemon(p Process) bool {
	return len(p.Args) > 0 && (p.Args[0] == "slurmd" || p.Args[0] == sgePrograms+"sge_execd" || isCondorDaemon(p.Args[0]))
}

// marked returns a test for processes that have the mark, or an ancestor that has it.
func (f *Cluster) marked(all []Process, mark string) func(Process) bool {
	parent := make(map[int]int, len(all))
	has := make(map[int]bool)
	for _, p := range all {
		parent[p.PID] = p.Parent
		has[p.PID] = hasMark(p.PID, mark)
	}
	return func(p Process) bool {
		// A pid that was reused while we looked could close a circle.
		for pid, steps := p.PID, 0; pid > 1 && steps < len(all); pid, steps = parent[pid], steps+1 {
			if has[pid] {
				return true
			}
		}
		return false
	}
}

// hasMark looks for the mark in a process's environment; one that ends with ":" is that
// of all hosts of the field. It cannot see into processes of other users.
func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	want := []byte(markName + "=" + mark)
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) || strings.HasSuffix(mark, ":") && bytes.HasPrefix(v, want) {
			return true
		}
	}
	return false
}

// namespace names a namespace of a process, "" if there is no such process.
func namespace(pid int, kind string) string {
	name, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", kind))
	return name
}

// processes lists all running processes of this machine.
func processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// readProcess returns false for a process that has ended.
func readProcess(pid int) (Process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, false
	}
	// proc_pid_stat(5): the name is in brackets and may hold anything.
	after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(after) < 2 || after[0] == "Z" || after[0] == "X" {
		return Process{}, false
	}
	parent, _ := strconv.Atoi(after[1])
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Process{}, false
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Process{}, false
	}
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return Process{PID: pid, Parent: parent, UID: int(st.Uid), Args: args}, true
}

// killStrays kills what the end of the field's own processes does not take along: with
// namespaces, commands on the head; with the other kinds, whatever sessions have left.
func (f *Cluster) killStrays() error {
	all, err := processes()
	if err != nil {
		return err
	}
	stray := f.marked(all, f.markOf(""))
	if f.Kind == Namespaces {
		if f.HeadPID == 0 || f.ProcessGroup == 0 || !isAlive(f.State) {
			return nil
		}
		space := namespace(f.HeadPID, "net")
		if space == "" || space == namespace(os.Getpid(), "net") {
			return nil
		}
		stray = func(p Process) bool { return namespace(p.PID, "net") == space }
	}
	all = slices.DeleteFunc(all, func(p Process) bool {
		// What holds the field together ends in one go, later.
		group, err := unix.Getpgid(p.PID)
		return p.PID == os.Getpid() || err != nil || group == f.ProcessGroup || !stray(p)
	})
	killed := make(map[int]bool)
	for _, p := range all {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		killed[p.PID] = true
	}
	return waitGone(func(p Process) bool { return killed[p.PID] })
}

// waitGone waits for the end of processes that were killed. The dead that nobody has
// waited for have ended.
func waitGone(killed func(Process) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		all, err := processes()
		return !slices.ContainsFunc(all, killed), err
	})
}
