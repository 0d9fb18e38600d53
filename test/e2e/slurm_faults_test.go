//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// Whatever is killed between mpiexec and a rank, one cause is told, if anybody is left to tell it,
// and nothing stays behind (9.3; what TestSlurm looks for after each of its parts).
func slurmFaults(t *testing.T, s *slurmBed) {
	for _, test := range []struct {
		name string
		hit  func(args []string) bool
		on   string // a host, or the head for srun and mpiexec
		want string // in what is told
	}{
		{"srun", func(args []string) bool { return strings.HasSuffix(args[0], "srun") && slices.Contains(args, "n2") }, testbed.Head, "lost contact with n2 (srun: killed by signal 9)"},
		{"helper", second("--helper-child"), "n2", "lost contact with n2"},
		{"keeper", second("--helper"), "n2", " n2 "}, // its helper is told to end when it dies,
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.salloc(t, []string{"-N2", "-n2", "-w", "n1,n2"}, binary, "sh", "-c", "echo ready; exec sleep 1000")
			r.await(t, "ready", 2)
			if pids := s.kill(t, test.on, test.hit); len(pids) == 0 {
				t.Fatal("nothing to kill")
			}
			res := r.wait(t)
			if res.code != 125 || strings.Count(res.err, "mpiexec: ") != 1 || !strings.Contains(res.err, test.want) {
				t.Errorf("exit %d: %s\nwant 125, %s", res.code, res.err, test.want)
			}
			s.clean(t, minutes)
		})
	}
}

// kill kills those processes of a host whose arguments hit likes; of the head, what mpiexec has
// started there.
func (s *slurmBed) kill(t *testing.T, host string, hit func(args []string) bool) (pids []int) {
	t.Helper()
	found := make(map[int][]string)
	if host == testbed.Head {
		for _, launcher := range s.launchers() {
			for _, pid := range children(launcher) {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				found[pid] = strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
			}
		}
	} else {
		for _, p := range s.processes(t, host) {
			found[p.PID] = p.Args
		}
	}
	for pid, args := range found {
		if hit(args) {
			syscall.Kill(pid, syscall.SIGKILL)
			pids = append(pids, pid)
		}
	}
	return pids
}

// children are those of a process, whichever thread has started them.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for word := range strings.FieldsSeq(string(text)) {
			child, _ := strconv.Atoi(word)
			pids = append(pids, child)
		}
	}
	return pids
}
