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

// A Process is a running process. PID and Parent are PIDs in the PID namespace of the calling program.
type Process struct {
	PID, Parent int
	UID         int
	Args        []string
}

// markName is the environment variable that says to which host a process belongs, for clusters whose hosts share
// one PID namespace. Its value is the mark of the host (markOf).
const markName = "REMSHELL_FIELD"

// markOf returns the mark of a host, which is the value of markName for the host's processes. If host is "", it
// returns the prefix that all marks of the cluster have in common.
func (f *Cluster) markOf(host string) string { return f.State + ":" + host }

// Processes returns the processes of a host, including the sessions of its sshd. It leaves out process 1 and
// the sleep command of process 1, the listening sshd, daemons of a batch system, and zombies.
//
// In a cluster of another kind than Namespaces, Processes finds processes by the host's mark (markName) in
// their environment. It also returns their descendants. It does not find an orphan whose environment was
// changed.
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
			return nil, errors.New("test cluster " + f.Name + ": " + host + ": is gone")
		}
		on = func(p Process) bool {
			return p.PID != h.Init && !isInitChild(p, h.Init) && namespace(p.PID, "pid") == space
		}
	}
	return slices.DeleteFunc(all, func(p Process) bool { return !on(p) || isListener(p) || isBatchDaemon(p) }), nil
}

// isInitChild reports whether p is the sleep command for which process 1 of a host waits (scripts/host.sh). init is
// the PID of process 1.
func isInitChild(p Process, init int) bool {
	return p.Parent == init && slices.Equal(p.Args, []string{"sleep", "infinity"})
}

// isListener reports whether p is a listening sshd. It checks the process title that sshd sets (sshd.c, "[listener]").
func isListener(p Process) bool {
	return len(p.Args) > 0 && strings.HasPrefix(p.Args[0], "sshd: ") && strings.Contains(p.Args[0], "[listener]")
}

// isBatchDaemon reports whether p is slurmd, sge_execd or a daemon of HTCondor. It returns false for processes that
// these daemons start for a job.
func isBatchDaemon(p Process) bool {
	return len(p.Args) > 0 && (p.Args[0] == "slurmd" || p.Args[0] == sgePrograms+"sge_execd" || isCondorDaemon(p.Args[0]))
}

// marked returns a function that reports whether a process, or an ancestor of the process, has the mark in its
// environment.
func (f *Cluster) marked(all []Process, mark string) func(Process) bool {
	parent := make(map[int]int, len(all))
	has := make(map[int]bool)
	for _, p := range all {
		parent[p.PID] = p.Parent
		has[p.PID] = hasMark(p.PID, mark)
	}
	return func(p Process) bool {
		// If a pid is reused during the listing, the parents could form a cycle.
		for pid, steps := p.PID, 0; pid > 1 && steps < len(all); pid, steps = parent[pid], steps+1 {
			if has[pid] {
				return true
			}
		}
		return false
	}
}

// hasMark reports whether a process has the mark in its environment. A mark that ends with ":" matches all hosts of
// the cluster. hasMark returns false for processes of other users, whose environment cannot be read.
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

// namespace returns the name of a process's namespace of the given kind, such as "net:[4026531840]". It returns ""
// if there is no such process.
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

// readProcess reads a process from /proc. It returns false if the process has ended or is a zombie.
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

// killStrays kills processes that do not end with the keeper, and waits until they have ended. With kind
// Namespaces, these are commands on the head. With other kinds, they are processes that sessions have left behind.
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
		// The keeper's process group is killed later, all at once.
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

// waitGone waits until no running process is left for which killed returns true. A zombie is not a running
// process. After downTimeout, waitGone returns an error.
func waitGone(killed func(Process) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		all, err := processes()
		return !slices.ContainsFunc(all, killed), err
	})
}
