package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// maxProcessMemory is how large a process of ours may become (IO-11), in KiB.
const maxProcessMemory = 64 << 10

// ownProcesses lists the processes of ours that a job has, on the head and on the hosts.
func (b *testCluster) ownProcesses(t *testing.T) []int {
	t.Helper()
	pids := b.launchers()
	for _, h := range b.Hosts {
		for _, p := range b.processes(t, h.Name) {
			if isHelperArgs(p.Args) || isReaperArgs(p.Args) {
				pids = append(pids, p.PID)
			}
		}
	}
	return pids
}

// fieldOf is a number of a file such as /proc/PID/status; 0 if the process is gone.
func fieldOf(pid int, file, name string) int {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			return n
		}
	}
	return 0
}

// IO-11: ranks that write faster than anybody reads wait, and no process of ours grows;
// then the reader leaves, and so do we. Lines, no lines at all, and both streams.
func TestMemoryIsBounded(t *testing.T) {
	for _, local := range []bool{true, false} {
		t.Run(fmt.Sprint("local ", local), func(t *testing.T) {
			b := newTestCluster(t, testbed.Options{Hosts: 2})
			if b.Kind == testbed.Namespaces { // else processes of other test clusters look like those of this one
				t.Parallel()
			}
			hosts := "localhost:4"
			if !local {
				hosts = hostsWithSlots(b, 2)
			}
			for program, option := range map[string]string{
				"exec yes": "-l", "exec cat /dev/zero": "-u", "yes & exec cat /dev/zero >&2": "-T",
			} {
				b.runFlood(t, option, "-hosts", hosts, "-n", "4", "sh", "-c", program)
			}
			b.awaitClean(t, goneTimeout)
		})
	}
}

// runFlood runs a job whose output nobody reads until all of it has come to a stop.
func (b *testCluster) runFlood(t *testing.T, args ...string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := b.Command(ctx, nil, binary, args...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var flowed, quiet int
	stopped := poll(goneTimeout, func() bool {
		now := 0
		for _, pid := range b.ownProcesses(t) {
			now += fieldOf(pid, "io", "rchar")
		}
		if now != flowed || now < 1<<20 {
			flowed, quiet = now, 0
		}
		quiet++
		return quiet > 20
	})
	if !stopped {
		t.Errorf("%q: output did not come to a stop; %d bytes", args, flowed)
	}
	for _, pid := range b.ownProcesses(t) {
		if size := fieldOf(pid, "status", "VmHWM"); size > maxProcessMemory {
			t.Errorf("%q: process %d had %d KiB", args, pid, size)
		}
	}
	r.Read(make([]byte, 1))
	r.Close()
	if err := cmd.Wait(); exitCode(cmd.ProcessState) != 141 {
		t.Errorf("%q: %v, want exit code 141", args, err)
	}
}

// IO-8: lines of many ranks on many hosts arrive whole, each with its label, none lost and
// those of each rank in order. With E2E_LONG ten million.
func TestManyLabelledLines(t *testing.T) {
	const ranks = 4
	each := 25_000
	if os.Getenv("E2E_LONG") != "" {
		each = 2_500_000
	}
	b := newTestCluster(t, testbed.Options{Hosts: ranks})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := b.Command(ctx, nil, binary, "-l", "-hosts", hostsWithSlots(b, 1), "-n", strconv.Itoa(ranks),
		"seq", "-f", "line %.0f of a long text that shall not be torn", strconv.Itoa(each))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var next [ranks]int
	for lines := bufio.NewScanner(out); lines.Scan() && !t.Failed(); {
		rank := int(lines.Text()[1] - '0')
		if rank < 0 || rank >= ranks {
			t.Fatalf("line %q", lines.Text())
		}
		next[rank]++
		if want := fmt.Sprintf("[%d] line %d of a long text that shall not be torn", rank, next[rank]); lines.Text() != want {
			t.Errorf("got %q, want %q", lines.Text(), want)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for rank, n := range next {
		if n != each {
			t.Errorf("rank %d: %d lines of %d", rank, n, each)
		}
	}
}

// IO-4: every reader gets all, on hosts as at home.
func TestInputForAll(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	text := strings.Repeat("a line of standard input\n", 40_000) // 1 MB
	for _, hosts := range []string{hostsWithSlots(b, 2), "localhost:4"} {
		r := b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader(text),
			args: []string{"-stdin", "all", "-hosts", hosts, "-n", "4", "wc", "-c"}}).wait(t)
		if want := strings.Repeat("1000000\n", 4); r.code != 0 || r.out != want {
			t.Errorf("%s: exit %d, %q: %s", hosts, r.code, r.out, r.err)
		}
		r = b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader(text),
			args: []string{"-stdin", "1-3", "-hosts", hosts, "-n", "4", "sh", "-c", "test $PMI_RANK = 2 || wc -c"}}).wait(t)
		if got := strings.Join(sortedLines(r.out), " "); r.code != 0 || got != "0 1000000 1000000" {
			t.Errorf("%s: exit %d, %q: %s", hosts, r.code, r.out, r.err)
		}
	}
}

// At home a pipe's pages are handed on: every reader gets what was written, byte for byte, also one
// with a terminal, and who stops reading, or never begins, holds up nobody.
func TestInputForAllAtHome(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	var text strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&text, i)
	}
	sum := sha256.Sum256([]byte(text.String()))
	want := hex.EncodeToString(sum[:])
	r := b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader(text.String()), args: []string{"-stdin", "all", "-hosts", "localhost:5", "-n", "5", "sh", "-c",
		`case $PMI_RANK in 0|3) sha256sum;; 1) head -c 3 >/dev/null;; 2) exec 0<&-;; 4) sleep 0.3; sha256sum;; esac`}}).wait(t)
	if got := strings.Fields(r.out); r.code != 0 || strings.Count(r.out, want) != 3 || len(got) != 6 {
		t.Errorf("exit %d, %q, want three times %s: %s", r.code, r.out, want, r.err)
	}
	r = b.startMpiexec(t, mpiexecCall{stdin: strings.NewReader("one\ntwo\n"), args: []string{"-stdin", "all", "--pty=1", "-hosts", "localhost:2", "-n", "2", "cat"}}).wait(t)
	if r.code != 0 || strings.Count(r.out, "one") < 2 || strings.Count(r.out, "two") < 2 {
		t.Errorf("beside a terminal: exit %d, %q: %s", r.code, r.out, r.err)
	}
}

// IO-6: neither we nor a remote shell take input that is for others.
func TestInputForNobody(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for _, way := range transports() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		args := append([]string{"-c", `"$@"; cat`, "sh", binary, "-stdin", "none"}, way...)
		cmd := b.Command(ctx, nil, "sh", append(args, "-hosts", hostsWithSlots(b, 1), "-n", "1", "cat")...)
		cmd.Stdin = strings.NewReader("for others\n")
		out, err := cmd.Output()
		if err != nil || string(out) != "for others\n" {
			t.Errorf("%q: %q, %v", way, out, err)
		}
	}
}
