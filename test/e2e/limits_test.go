//go:build linux

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// memoryProgram is a rank of some 10 MB with a child, that says how large it is itself, in bytes, and stays.
const memoryProgram = `x=$(head -c 10000000 /dev/zero | tr '\0' x); sleep 1000 &
while read -r key kb _; do case $key in VmSize:) vmem=$kb;; VmRSS:) mem=$kb;; esac; done <"/proc/$$/status"
echo $((vmem * 1024)) $((mem * 1024)); wait`

// RM-55, RM-56: what nine ranks of 10 MB on three hosts have together, with their
// children, is more than they have themselves, and the job is ended with the line of batch systems; what is below
// goes on. How large a program is, each machine has its own idea of: the test asks.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	start := func(limit string, ranks int) *runningJob {
		return b.startMpiexec(t, mpiexecCall{args: []string{"--no-pin", "--limit", limit, "-host", "n1:3,n2:3,n3:3", "-n", fmt.Sprint(ranks), "bash", "-c", memoryProgram}})
	}
	// Below: all hold what they have, and the job goes on until it is told to end.
	r := start("vmem=900gb,mem=900gb,hmem=300gb,hvmem=300gb,pmem=100gb,cput=100d,walltime=100d", 9)
	r.awaitOut(t, " ", 9)
	r.cmd.Process.Signal(syscall.SIGTERM)
	res := r.wait(t)
	if res.code != 143 || strings.Contains(res.err, "=>>") {
		t.Fatalf("exit %d, %s", res.code, res.err)
	}
	var vmem, mem int64
	least := int64(1) << 60
	for line := range strings.Lines(res.out) {
		var v, m int64
		if _, err := fmt.Sscan(line, &v, &m); err != nil {
			t.Fatalf("%v in %q", err, res.out)
		}
		vmem, mem, least = vmem+v, mem+m, min(least, m)
	}
	for _, test := range []struct {
		limit string
		most  int64
		line  string
	}{
		{"vmem", vmem, `vmem ([0-9]+) exceeded limit %d`},
		{"mem", mem / 2, `mem ([0-9]+) exceeded limit %d`},
		{"hvmem", vmem / 4, `vmem ([0-9]+) exceeded limit %d on host n[1-3]`},
		{"hmem", mem / 4, `mem ([0-9]+) exceeded limit %d on host n[1-3]`},
		{"pmem", least / 2, `pmem ([0-9]+) exceeded limit %d by rank [0-8] on host n[1-3]`},
	} {
		res := start(fmt.Sprintf("%s=%d", test.limit, test.most), 9).wait(t)
		line := regexp.MustCompile(`(?m)^=>> mpiexec: job killed: ` + fmt.Sprintf(test.line, test.most) + `$`)
		told := line.FindStringSubmatch(res.err)
		if res.code != 124 || told == nil {
			t.Errorf("%s=%d: exit %d, %s", test.limit, test.most, res.code, res.err)
			continue
		}
		if used, _ := strconv.ParseInt(told[1], 10, 64); used <= test.most {
			t.Errorf("%s: %s", test.limit, told[0])
		}
	}
}

// Time of a rank that burns it, and of its wall clock.
func TestLimitsOfTime(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	for limit, words := range map[string][]string{
		"cput=1":     {"while :; do :; done", `cput [0-9]+ exceeded limit 1`},
		"walltime=1": {"exec sleep 1000", `walltime [0-9]+ exceeded limit 1`},
	} {
		r := b.runMpiexec(t, "--limit", limit, "-host", "n1", "-n", "1", "sh", "-c", words[0])
		if match := regexp.MustCompile(`(?m)^=>> mpiexec: job killed: ` + words[1] + `$`).MatchString(r.err); r.code != 124 || !match {
			t.Errorf("%s: exit %d, %s", limit, r.code, r.err)
		}
	}
}

// Limits of the kernel are there before the program is, on a host as here; what a host does not
// allow is refused before anything starts.
func TestLimitsOfTheKernel(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	r := b.runMpiexec(t, "--limit", "nofile=64,stack=4mb,core=0,pvmem=1gb,pcput=90", "-host", "n1:2,n2", "-n", "3", "sh", "-c",
		"echo $(ulimit -n) $(ulimit -s) $(ulimit -c) $(ulimit -v) $(ulimit -St) $(ulimit -Ht)")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 0 || len(lines) != 3 || slices.ContainsFunc(lines, func(line string) bool { return line != "64 4096 0 1048576 90 95" }) {
		t.Errorf("exit %d, %q, %s", r.code, r.out, r.err)
	}
}

// What a node's own administrator allows holds there, whoever asks for more, and the file must be root's.
func TestLimitsOfANode(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	on := func(script, input string) {
		t.Helper()
		cmd := b.On(t.Context(), "n1", "sh", "-ec", script)
		cmd.Stdin = strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	on(`d=$(mktemp -d); cp -a /etc/. "$d"; mkdir -p "$d/remshell"; chmod 755 "$d"; mount --bind "$d" /etc`, "")
	says := func(text string) { t.Helper(); on("cat >/etc/remshell/limits.toml", text) }
	says("nofile = 64\ncore = 0\n")
	r := b.runMpiexec(t, "-l", "--limit", "nofile=80", "-host", "n1:1,n2:1", "-n", "2", "sh", "-c", "echo $(ulimit -n) $(ulimit -Hn)")
	if r.code != 0 || !strings.Contains(r.out, "[0] 64 64\n") || !strings.Contains(r.out, "[1] 80 80\n") {
		t.Errorf("exit %d, %q, %s", r.code, r.out, r.err)
	}
	for text, line := range map[string]string{
		"hvmem = 4096": `vmem [0-9]+ exceeded limit 4096 on host n1`,
		"pmem = 4096":  `pmem [0-9]+ exceeded limit 4096 by rank 0 on host n1`,
		"walltime = 1": `walltime [0-9]+ exceeded limit 1 on host n1`,
	} {
		says(text + "\n")
		r := b.runMpiexec(t, "--limit", "hmem=1gb", "-host", "n1:1,n2:1", "-n", "2", "sleep", "1000")
		if match := regexp.MustCompile(`(?m)^=>> mpiexec: job killed: ` + line + `$`).MatchString(r.err); r.code != 124 || !match {
			t.Errorf("%s: exit %d, %s", text, r.code, r.err)
		}
	}
	says("hmem = \"1gb\"\n")
	if r := b.runMpiexec(t, "--leave-children", "-host", "n1", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "n1: --leave-children cannot be used on this host: mpiexec could not enforce the limits of the host (/etc/remshell/limits.toml) after the end of the job\n  hint: leave out --leave-children, or choose other hosts") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	says("mem = 4096\n")
	if r := b.runMpiexec(t, "-host", "n1", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "/etc/remshell/limits.toml:1: mem: this limit applies to a whole job") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	says("")
	on("chown 12345 /etc/remshell/limits.toml", "")
	if r := b.runMpiexec(t, "-host", "n1", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "the file belongs to uid 12345, but must belong to root") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}
