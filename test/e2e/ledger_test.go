//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/tools/testbed"
)

// Other users of a node, seen from outside: section 5 of trust.md, in the built program.

// A million and a half of names in the directory of claims cost a start next to nothing, and
// it runs; where that cannot be read to its end and processes are hidden it is told.
func TestFloodedLedger(t *testing.T) {
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	dir := t.TempDir()
	if err := unix.Mount("flood", dir, "tmpfs", 0, "nr_inodes=0,mode=1777"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	best := func(args ...string) (cost time.Duration) {
		t.Helper()
		for range 5 {
			r := b.runMpiexec(t, append([]string{"--ledger", dir, "-host", "localhost", "-n", "1"}, args...)...)
			if r.code != 0 || r.err != "" {
				t.Fatalf("exit %d, %q", r.code, r.err)
			}
			if cost == 0 || r.cpu < cost {
				cost = r.cpu
			}
		}
		return cost
	}
	empty := best("true")
	first := filepath.Join(dir, "remshell-junk-0")
	if err := errors.Join(os.WriteFile(first, nil, 0o644), os.Chown(first, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	for i := range 1_500_000 {
		if err := os.Link(first, fmt.Sprint(dir, "/remshell-junk-", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	full := best("--exclusive", "true")
	t.Logf("a start costs %v, with 1,500,000 names %v", empty, full)
	if full-empty > 500*time.Millisecond {
		t.Errorf("a start costs %v, with 1,500,000 names %v", empty, full)
	}
}

// What a node's own administrator lets run there holds whatever users' files say: the helper
// there refuses the rest.
func TestNodeFile(t *testing.T) {
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
	says := func(text string) { t.Helper(); on("cat >/etc/remshell/node.toml", text) }
	want := func(code int, text string, args ...string) {
		t.Helper()
		r := b.runMpiexec(t, append(args, "hostname")...)
		if r.code != code || !strings.Contains(r.out+r.err, text) {
			t.Errorf("%v: exit %d, %q, %q; want %d, %q", args, r.code, r.out, r.err, code, text)
		}
	}
	says("runJobs = \"no\"\n")
	want(125, "the host does not allow jobs (/etc/remshell/node.toml)", "-host", "n1", "-n", "1")
	want(0, "n2\n", "-host", "n2", "-n", "1")
	want(0, "n2\n", "-host", "n1,n2", "-n", "1")
	says("maxproc = 1\n")
	want(0, "n1\n", "-host", "n1", "-n", "1")
	want(125, "the administrator's maxproc allows 1 on n1", "-host", "n1:2", "-n", "2")
	says("users = [4711]\n") // root always may
	want(0, "n1\n", "-host", "n1", "-n", "1")
	says("maxproc = many\n")
	want(125, "/etc/remshell/node.toml:1: ", "-host", "n1", "-n", "1")
	says("")
	on("chown 12345 /etc/remshell/node.toml", "")
	want(125, "the file belongs to uid 12345, but must belong to root", "-host", "n1", "-n", "1")
}

// Root ends who holds what nobody uses: a claim without a rank is told as idle, the refusal
// names whom to ask, another user may not evict it, and root may (TRUST-16, TRUST-19).
func TestEvict(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	mine := b.startHolding(t, "-host", "localhost:2", "-n", "2")
	mine.awaitCPUs(t)
	id := b.readListing(t, "localhost").Jobs[0].Job
	r := b.runMpiexec(t, "-host", "localhost", "-n", "1", "--nooversubscribe", "true")
	if want := "jobs of root have used all "; r.code != 125 || !strings.Contains(r.err, want) || !strings.Contains(r.err, "end one of your jobs: mpiexec --end "+id+" localhost, or use --wait to wait for other jobs to end") {
		t.Errorf("exit %d, %q; want %q", r.code, r.err, want)
	}
	his := b.startMpiexec(t, mpiexecCall{args: []string{"--evict", id, "localhost"}, env: []string{"HOME=/", "USER=somebody"}, uid: 12345}).wait(t)
	if his.code != 125 || !strings.Contains(his.err, "localhost: only root may do this") {
		t.Errorf("exit %d, %q", his.code, his.err)
	}
	if r := b.runMpiexec(t, "--evict", id, "localhost"); r.code != 0 || !strings.Contains(r.err, "removed the claim of job "+id+" of user root; ended process ") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	mine.wait(t)
	if jobs := b.readListing(t, "localhost").Jobs; len(jobs) != 0 {
		t.Errorf("still there: %+v", jobs)
	}
}

// A user's own ledger is seen in that of the cluster: his ranks are there, without CPUs, and
// with the directory that he chose (TRUST-20). --doctor tells which directory counts.
func TestOwnLedgerIsNoted(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	dir := t.TempDir()
	site, own, cluster := filepath.Join(dir, "site"), filepath.Join(dir, "own"), filepath.Join(dir, "cluster.toml")
	text := fmt.Sprintf("ledger = %q\n[[node]]\nname = \"localhost\"\n", site)
	err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Mkdir(site, 0o777), os.Chmod(site, 0o777|os.ModeSticky),
		os.Mkdir(own, 0o700), os.Chown(own, 12345, 12345), os.WriteFile(cluster, []byte(text), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	r, w := inputPipe(t)
	his := b.startMpiexec(t, mpiexecCall{args: []string{"--cluster", cluster, "--ledger", own, "-n", "1", "sh", "-c", "echo here; exec cat"},
		env: []string{"HOME=/", "USER=somebody"}, uid: 12345, stdin: r})
	his.awaitOut(t, "here", 1)
	ps := b.runMpiexec(t, "--ledger", site, "--ps", "localhost")
	if ps.code != 0 || !strings.Contains(ps.out, "(--ledger "+own+") sh -c") {
		t.Errorf("exit %d, %q, %q", ps.code, ps.out, ps.err)
	}
	w.Close()
	his.wait(t)
	if ps = b.runMpiexec(t, "--ledger", site, "--ps", "localhost"); ps.out != "no jobs\n" {
		t.Errorf("%q, %q", ps.out, ps.err)
	}
	if r := b.runMpiexec(t, "--ledger", own, "--exclusive", "-host", "localhost", "-n", "1", "true"); r.code != 125 ||
		!strings.Contains(r.err, "localhost: other jobs may use the same CPUs: cannot use the claims in "+own+": the directory belongs to uid 12345, but must belong to root") {
		t.Errorf("a foreign owner: exit %d, %q", r.code, r.err)
	}
	if r := b.runMpiexec(t, "--ledger", site, "--doctor", "localhost"); !strings.Contains(r.out, "claims in "+site+",") && !strings.Contains(r.out, "claims in "+site+"\n") {
		t.Errorf("doctor: %q, %q", r.out, r.err)
	}
	if r := b.runMpiexec(t, "--ledger", site, "--doctor", "--json", "localhost"); !strings.Contains(r.out, `"`+site+"/remshell-") {
		t.Errorf("doctor, JSON: %q, %q", r.out, r.err)
	}
}

// A request that waits was told that its queue host is lost when it was evicted, queued again, and ran. --end refused it. And "last" was
// the waiting job for some options and the running one for others.
func TestRequestIsTakenOutOfTheQueue(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	mine := b.startHolding(t, "-host", "n1,n2", "-n", "4")
	mine.awaitCPUs(t)
	for _, option := range []string{"--end", "--evict"} {
		waiter := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "n1,n2", "-n", "4", "--wait", "echo", "ran"}})
		id := b.awaitQueue(t, "n1", 1).Waiting[0].Job
		for _, words := range [][]string{{"--suspend"}, {"--signal", "USR1"}} {
			if r := b.runMpiexec(t, append(words, "last", "n1", "n2")...); r.code != 125 || !strings.Contains(r.err, "job "+id+" waits in the queue, so none of its ranks is running yet") {
				t.Errorf("%s last: exit %d, %q", words, r.code, r.err)
			}
		}
		if r := b.runMpiexec(t, option, "last", "n1", "n2"); r.code != 0 || !strings.Contains(r.err, id) {
			t.Errorf("%s: exit %d, %q", option, r.code, r.err)
		}
		if r := waiter.wait(t); r.code != 125 || !strings.Contains(r.err, "mpiexec: n1: the request was removed from the queue by root") || strings.Contains(r.err, "queueing") {
			t.Errorf("%s: exit %d, %q", option, r.code, r.err)
		}
	}
	if r := b.runMpiexec(t, "--evict", "last", "n1", "n2"); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := mine.wait(t); r.code != 125 || !strings.Contains(r.err, "received a signal that ends them (SIGTERM): user root ended the job with mpiexec --evict") || strings.Contains(r.err, "journalctl") {
		t.Errorf("the running job: exit %d, %q", r.code, r.err)
	}
}
