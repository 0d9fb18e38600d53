//go:build linux

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"remshell/test/cgrouptest"
	"remshell/tools/testbed"
)

// A rank that its node ends has a hint at why, also if a shell reports the signal.
func TestWhyANodeEndsARank(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	const (
		spins = "while :; do :; done"
		// It starts processes until there is no room for one, and ends them.
		forks = `import os, signal, sys
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    for child in children:
        os.kill(child, signal.SIGKILL)
    sys.exit(3)`
	)
	memory := `out of memory: the kernel has killed (a process|\d+ processes) in the job's control group, whose limit is 64 MiB`
	for _, test := range []struct {
		name  string
		group func(*testing.T, int) string // nil: none
		most  int
		words []string
		says  string // a regular expression
	}{
		{"memory", cgrouptest.MemoryGroup, 64 << 20, []string{"tail", "/dev/zero"}, `died: Killed \(signal 9\)\n(.*\n)*  hint      ` + memory},
		{"memory, below a shell", cgrouptest.MemoryGroup, 64 << 20, []string{"sh", "-c", "tail /dev/zero; exit $?"}, `exited with code 137\n(.*\n)*  hint      ` + memory},
		{"processes", cgrouptest.PIDsGroup, 100, []string{python, "-c", forks}, `exited with code 3\n(.*\n)*  hint      out of processes: .* whose limit is 100 \(pids\.max`},
		{"CPU time", nil, 0, []string{"sh", "-c", "ulimit -St 1; " + spins}, `died: CPU time limit exceeded \(signal 24\)\n(.*\n)*  hint      the CPU time of the rank is limited to 1 s`},
		{"CPU time, hard", nil, 0, []string{"sh", "-c", "ulimit -t 1; " + spins}, `died: Killed \(signal 9\)\n(.*\n)*  hint      the CPU time of the rank is limited to 1 s`},
		{"a file", nil, 0, []string{"sh", "-c", `ulimit -f 2; exec head -c 5000 /dev/zero >"$0"`, filepath.Join(t.TempDir(), "file")}, `died: File size limit exceeded \(signal 25\)\n(.*\n)*  hint      each file that the rank writes is limited to 1024 bytes`},
	} {
		t.Run(test.name, func(t *testing.T) {
			words := slices.Concat([]string{binary, "-host", "localhost", "-n", "1"}, test.words)
			if test.group != nil {
				words = append(cgrouptest.EnterCommand(test.group(t, test.most)), words...)
			}
			r := b.startCommand(t, mpiexecCall{}, words).wait(t)
			if !regexp.MustCompile(test.says).MatchString(r.err) {
				t.Errorf("exit %d, want %s:\n%s", r.code, test.says, r.err)
			}
		})
	}
}

// A helper that the kernel kills because memory is short is no riddle: its reaper, or mpiexec, says so.
func TestHelperKilledForMemory(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, where := range []struct {
		name  string
		words func(group string) []string
	}{
		{"its reaper", func(group string) []string {
			return []string{binary, "-launcher-exec", "ssh %h echo $$ >" + group + "/cgroup.procs; exec %c", "-host", "n1"}
		}},
		{"mpiexec", func(group string) []string {
			return append(cgrouptest.EnterCommand(group), binary, "-host", "localhost")
		}},
	} {
		t.Run(where.name, func(t *testing.T) {
			group := cgrouptest.MemoryGroup(t, 128<<20)
			in, input := inputPipe(t)
			ranks := 2 * runtime.NumCPU() // so that mpiexec has a helper beside it
			r := b.startCommand(t, mpiexecCall{stdin: in}, append(where.words(group), "--oversubscribe", "-n", fmt.Sprint(ranks),
				"sh", "-c", `echo ready; test $PMI_RANK = 0 || exec sleep 1000; read line; exec tail /dev/zero`))
			r.awaitOut(t, "ready", ranks)
			helpers := 0
			text, _ := os.ReadFile(group + "/cgroup.procs")
			for _, pid := range strings.Fields(string(text)) {
				line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				if !isHelperArgs(strings.Split(string(line), "\x00")) {
					continue
				}
				if helpers++; os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0) != nil { // the first that the kernel chooses
					t.Fatal("its score cannot be set")
				}
			}
			if helpers != 1 {
				t.Fatalf("%d helpers are in the group", helpers)
			}
			io.WriteString(input, "\n")
			got := r.wait(t)
			want := regexp.MustCompile(`lost contact with \S+ \(killed by signal 9: out of memory: the kernel has killed (a process|\d+ processes) in the job's control group, whose limit is 128 MiB\)`)
			if got.code != 125 || !want.MatchString(got.err) || strings.Contains(got.err, "journalctl") {
				t.Errorf("exit %d, %s", got.code, got.err)
			}
		})
	}
}
