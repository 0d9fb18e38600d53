//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/tools/testbed"
)

// A doctorCase is something wrong with n1, and what --doctor has to say of it. Without hosts
// it is said of n1.
type doctorCase struct {
	name   string
	build  func(*testing.T, *testCluster)
	code   string
	level  string // failure or warning
	hosts  []string
	text   string
	remedy string
	args   []string // instead of "n1 n2"
}

// doctorCases are the faults that a host of a test cluster can have (issue 7, done when 3). It cannot have a clock of
// its own: launch.TestExamineTellsAClockThatIsOff has one.
var doctorCases = []doctorCase{
	{name: "unknown key", code: "unknown-key", level: "failure", text: "unknown", remedy: "--accept-new-host-keys",
		build: func(t *testing.T, b *testCluster) { b.editKnownHosts(t, b.knownAs(t, "n1"), "") }},
	{name: "refused login", code: "login", level: "failure", text: "login refused for user nobody-here", remedy: "copy your key to the host",
		build: func(t *testing.T, b *testCluster) { b.sshConfig(t, "Host n1\n\tUser nobody-here\n") }},
	{name: "closed port", code: "refused", level: "failure", text: "no ssh server listens on port 9", remedy: "start sshd",
		build: func(t *testing.T, b *testCluster) { b.sshConfig(t, "Host n1\n\tPort 9\n") }},
	{name: "black hole", code: "unreachable", level: "failure", text: "cannot reach port 22", remedy: "firewall",
		args: []string{"--connect-timeout", "2", "n1", "n2"},
		build: func(t *testing.T, b *testCluster) {
			if err := b.Block("n1"); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "slow login shell", code: "slow-shell", level: "warning", text: "the login shell takes longer than 3s to run a command", remedy: "time ssh n1 true",
		build: func(t *testing.T, b *testCluster) { b.addStartupFile(t, "n1", "sleep 4\n") }},
	{name: "login shell that does not come", code: "shell", level: "failure", text: "the login shell did not run /bin/sh within 20 s", remedy: "~/.bashrc",
		args: []string{"--shell-timeout", "20", "n1", "n2"},
		build: func(t *testing.T, b *testCluster) {
			b.addStartupFile(t, "n1", "while sleep 1; do echo waiting; done\n")
		}},
	{name: "noisy login shell", code: "login-noise", level: "warning", text: `"Welcome to n1"`, remedy: "case $- in *i*)",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-c", "echo 'echo Welcome to n1' >>/root/.bashrc")
		}},
	{name: "nothing can be executed", code: "noexec", level: "failure", text: "no folder of the node allows programs to run", remedy: "XDG_CACHE_HOME",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-ec", "for d in /root /tmp /dev/shm; do mount -o remount,noexec $d; done")
		}},
	{name: "tiny shared memory", code: "dev-shm", level: "warning", text: "/dev/shm has a size of only 1 MiB", remedy: "mount -o remount,size=",
		build: func(t *testing.T, b *testCluster) { b.runOn(t, "n1", "mount", "-o", "remount,size=1m", "/dev/shm") }},
	{name: "few open files", code: "limit", level: "warning", text: "a login has a limit of only 400 for open files (ulimit -Hn)", remedy: "/etc/security/limits.conf",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-c", "prlimit --pid $(cat /run/field/sshd.pid) --nofile=200:400")
		}},
	{name: "missing working directory", code: "directory", level: "failure", text: "working directory /only/here", remedy: "-wdir",
		args: []string{"-host", "n1,n2", "-wdir", "/only/here", "true"}, hosts: []string{"n1", "n2"},
		build: func(*testing.T, *testCluster) {}},
	{name: "missing program", code: "program", level: "failure", text: "program /tmp/solver: no such file", remedy: "copy the program",
		args: []string{"-host", "n1,n2", "/tmp/solver"},
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n2", "sh", "-c", "echo >/tmp/solver; chmod +x /tmp/solver")
		}},
	{name: "program where none can be run", code: "program", level: "failure", text: "program /dev/shm/true cannot run: its file system is mounted noexec", remedy: "--stage",
		args: []string{"-host", "n1,n2", "/dev/shm/true"},
		build: func(t *testing.T, b *testCluster) {
			for _, host := range []string{"n1", "n2"} {
				b.runOn(t, host, "sh", "-ec", "mount -o remount,exec /dev/shm; cp /bin/true /dev/shm")
			}
			b.runOn(t, "n1", "mount", "-o", "remount,noexec", "/dev/shm")
		}},
	{name: "typo in node.toml", code: "node-file", level: "failure", text: "/etc/remshell/node.toml:2: unknown key \"maxprocs\" (did you mean \"maxproc\"?)", remedy: "ask the administrator of the host",
		build: func(t *testing.T, b *testCluster) { b.addEtcFile(t, "n1", "node.toml", "# ours\nmaxprocs = 3\n") }},
	{name: "typo in limits.toml", code: "node-file", level: "failure", text: "/etc/remshell/limits.toml:1: [limits]: this file has no tables", remedy: "ask the administrator of the host",
		build: func(t *testing.T, b *testCluster) { b.addEtcFile(t, "n1", "limits.toml", "[limits]\nwalltime = 2\n") }},
	{name: "no job may run", code: "barred", level: "failure", text: "the host does not allow jobs (/etc/remshell/node.toml)", remedy: "do not use this host",
		build: func(t *testing.T, b *testCluster) { b.addEtcFile(t, "n1", "node.toml", "runJobs = \"no\"\n") }},
	{name: "a user whom nobody knows", code: "node-file", level: "warning", text: `/etc/remshell/node.toml:1: users: no user "nobody-here" exists here, so the name is ignored`, remedy: "use the numeric ID",
		build: func(t *testing.T, b *testCluster) { b.addEtcFile(t, "n1", "node.toml", "users = [\"nobody-here\"]\n") }},
	{name: "no room to make claims", code: "ledger", level: "warning", text: "cannot use the claims in /var/tmp: read-only file system", remedy: "--ledger",
		build: func(t *testing.T, b *testCluster) { b.runOn(t, "n1", "mount", "-o", "remount,ro", "/var/tmp") }},
	{name: "another MTU", code: "mtu", level: "warning", text: "the MTU of eth0 is 1400, but on most hosts it is 1500", remedy: "ip link set eth0 mtu 1500",
		build: func(t *testing.T, b *testCluster) { b.runOn(t, "n1", "ip", "link", "set", "eth0", "mtu", "1400") }},
	{name: "full packets are swallowed", code: "mtu", level: "failure", hosts: []string{"n1", "n2"}, text: "small packets to n", remedy: "mtu 1500",
		build: func(t *testing.T, b *testCluster) {
			for _, host := range []string{"n1", "n2"} {
				// Without gso the links would carry packets of any size as one.
				b.runOn(t, host, "ip", "link", "set", "eth0", "mtu", "9000", "gso_max_segs", "1")
			}
		}},
	{name: "no route between nodes", code: "no-route", level: "failure", text: "cannot reach n2 on a high port: no route to host", remedy: "ip route",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "ip", "route", "add", "unreachable", b.Hosts[1].Addr)
		}},
	{name: "firewall between nodes", code: "no-route", level: "failure", hosts: []string{"n2"}, text: "cannot reach n1 on a high port: no answer", remedy: "firewalls",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "nft", fmt.Sprintf("add table inet d; add chain inet d i { type filter hook input priority 0; }; "+
				"add rule inet d i ip saddr %s tcp flags syn / syn,ack drop", b.Hosts[1].Addr))
		}},
	{name: "name leads to loopback", code: "own-name", level: "warning", text: "its own name has the address 127.0.1.1", remedy: "/etc/hosts: 10.88.0.1 n1",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-ec", "sed 's/^10.88.0.1 /127.0.1.1 /' /etc/hosts >/run/hosts; mount --bind /run/hosts /etc/hosts")
		}},
	{name: "narrow CPU mask", code: "cpu-mask", level: "warning", text: "a login may use only 1 of ", remedy: "taskset",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-c", "taskset -pc $(taskset -pc $$ | sed 's/.*[: ]\\([0-9]*\\)[-,].*/\\1/') $(cat /run/field/sshd.pid)")
		}},
	{name: "one login at a time", code: "max-startups", level: "warning", text: "more than 1 at the same time (MaxStartups)", remedy: "raise MaxStartups",
		build: func(t *testing.T, b *testCluster) {
			b.runOn(t, "n1", "sh", "-ec", "sed -i '1i MaxStartups 1' /run/field/sshd_config; kill -HUP $(cat /run/field/sshd.pid)")
			if !poll(goneTimeout, func() bool {
				return strings.Contains(b.runOn(t, "n1", "sh", "-c", "tr '\\0' ' ' </proc/$(cat /run/field/sshd.pid)/cmdline"), "of 1-")
			}) {
				t.Fatal("sshd did not take its new configuration")
			}
		}},
}

// addEtcFile gives a host an /etc of its own, with a file of its administrator.
func (b *testCluster) addEtcFile(t *testing.T, host, name, text string) {
	t.Helper()
	b.runOn(t, host, "sh", "-ec", `d=$(mktemp -d); cp -a /etc/. "$d"; mkdir -p "$d/remshell"; chmod 755 "$d"; printf %s "$1" >"$d/remshell/$2"; mount --bind "$d" /etc`, "sh", text, name)
}

// A diagnosis is what --doctor --json says.
type diagnosis struct {
	Verdict  string
	Findings []struct {
		Level, Code, Text, Remedy string
		Hosts                     []string
	}
}

// Issue 7, done when 3.
func TestDoctorFindsEachDefect(t *testing.T) {
	requireNamespaces(t)
	t.Parallel()
	for _, d := range doctorCases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			b := newTestCluster(t, testbed.Options{Hosts: 2})
			d.build(t, b)
			if d.args == nil {
				d.args = []string{"n1", "n2"}
			}
			if d.hosts == nil {
				d.hosts = []string{"n1"}
			}
			r := b.runMpiexec(t, append([]string{"--doctor", "--json"}, d.args...)...)
			want := map[string]int{"warning": 1, "failure": 125}[d.level]
			var said diagnosis
			if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != want || said.Verdict != d.level {
				t.Fatalf("exit %d, want %d: %v\nstdout: %s\nstderr: %s", r.code, want, err, r.out, r.err)
			}
			told := make(map[string]bool)
			for _, f := range said.Findings {
				if f.Level == d.level && f.Code == d.code && strings.Contains(f.Text, d.text) && strings.Contains(f.Remedy, d.remedy) {
					for _, h := range f.Hosts {
						told[h] = true
					}
				}
			}
			for _, h := range d.hosts {
				if !told[h] {
					t.Errorf("nothing of it about %s: %s", h, r.out)
				}
			}
		})
	}
}

// Hosts without a defect are fine, in text and JSON, and nothing is left open.
func TestDoctorOnHealthyHosts(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 3})
	b.requireNamespaces(t)
	r := b.runMpiexec(t, "--doctor", b.Names())
	rest, next, _ := strings.Cut(r.out, "\nNext: mpiexec ")
	if r.code != 0 || !strings.HasPrefix(r.out, "n[1-3]  ") || !strings.HasSuffix(rest, "\n3 hosts: all fine") || r.err != "" {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, strings.Fields(next)...); r.code != 0 || !strings.HasPrefix(next, "--selftest n1,n2,n3\n") {
		t.Errorf("%s: exit %d, %q, %s", next, r.code, r.out, r.err)
	}
	r = b.runMpiexec(t, "--doctor", "--json", b.Names())
	var said diagnosis
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || r.code != 0 || len(said.Findings) > 0 || said.Verdict != "fine" {
		t.Errorf("exit %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	file := filepath.Join(t.TempDir(), "report")
	r = b.runMpiexec(t, "--doctor", "--json="+file, "-host", "n2", "sh")
	if text, err := os.ReadFile(file); r.code != 0 || r.out != "" || err != nil || !slices.Contains([]byte(text), '{') {
		t.Errorf("exit %d, %q, %v, %s", r.code, text, err, r.err)
	}
}

// The doctor makes the plan of a start: what refuses the job is its failure, in the words of the job, and it advises no line that is refused.
func TestDoctorSaysWhatRefusesTheJob(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	holder := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1", "-n", "1", "sh", "-c", "echo up; exec sleep 600"}})
	if !poll(goneTimeout, func() bool { return strings.Contains(holder.out.String(), "up") }) {
		t.Fatal("the job that holds a CPU does not start")
	}
	slots := runtime.NumCPU()
	for _, line := range [][]string{
		{"-host", fmt.Sprintf("n1:%d", slots), "-n", fmt.Sprint(slots), "hostname"},
		{"-host", "n1,n2", "--tpp", fmt.Sprint(8 * slots), "hostname"},
		{"-host", "n1,n2", "-gpus-per-proc", "1", "hostname"},
		{"-host", "n1,n2", "-ppn", fmt.Sprint(slots + 1), "hostname"},
	} {
		refused := b.runMpiexec(t, line...)
		first, rest, _ := strings.Cut(strings.TrimPrefix(refused.err, "mpiexec: "), "\n")
		r := b.runMpiexec(t, append([]string{"--doctor"}, line...)...)
		_, said, _ := strings.Cut(r.out, "\nfailure  the job: ")
		if refused.code != 125 || r.code != 125 || !strings.HasPrefix(said, first+"\n") || strings.Contains(r.out, "\nNext: ") {
			t.Errorf("%q: exit %d\n%s--doctor: exit %d\n%s%s", line, refused.code, refused.err, r.code, r.out, r.err)
		}
		for below := range strings.Lines(rest) {
			if below = strings.TrimPrefix(strings.TrimSpace(below), "hint: "); !strings.Contains(said, " "+below+"\n") {
				t.Errorf("%q: the job says %q, the doctor does not\n%s", line, below, r.out)
			}
		}
	}
	r := b.runMpiexec(t, "--doctor", "--wait", "-host", fmt.Sprintf("n1:%d", slots), "-n", fmt.Sprint(slots), "hostname")
	if r.code != 1 || !strings.Contains(r.out, "\nwarning  the job: the job would wait at position 1 of the queue: ") {
		t.Errorf("with --wait: exit %d\n%s%s", r.code, r.out, r.err)
	}
	holder.cmd.Process.Signal(syscall.SIGTERM)
	holder.wait(t)
}

// Debian 12's MPICH hangs in MPI_Finalize on several hosts at times. The doctor knows that of a program which is to run there, and so does
// a job that has ended while a rank waited in it.
func TestKnownFaultOfMPICH(t *testing.T) {
	t.Parallel()
	program := mpiProgram(t, "misc.mpich4")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	const fault = "is linked with MPICH 4.0 with UCX (Debian 12); with this library, if ranks are on several hosts, MPI_Finalize sometimes hangs"
	r := b.runMpiexec(t, "--doctor", "-host", "n1,n2", program, "late", "1")
	if r.code != 1 || !strings.Contains(r.out, "\nwarning  n[1-2]: the program "+fault) || !strings.HasSuffix(r.out, "\nNext: mpiexec -host n1,n2 "+program+" late 1\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if r := b.runMpiexec(t, "--doctor", "-host", "n1", program); r.code != 0 || strings.Contains(r.out, "MPI_Finalize") {
		t.Errorf("of one host: exit %d\n%s%s", r.code, r.out, r.err)
	}
	hung := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1:1,n2:1", "-n", "2", program, "late", "1"}})
	if !poll(goneTimeout, func() bool { return strings.Contains(b.runMpiexec(t, "--status", "last", "n1").out, "in barrier 3") }) {
		t.Error("rank 0 does not come to its barrier in MPI_Finalize")
	}
	hung.cmd.Process.Signal(syscall.SIGTERM)
	if r := hung.wait(t); r.code != 143 || strings.Count(r.err, "mpiexec: note: rank 0 waited in MPI_Finalize until mpiexec ended the job. The program "+fault) != 1 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}
