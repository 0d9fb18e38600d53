//go:build linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// withSystemClusterFile runs a command with a cluster file of root's that has this text in the place of the site's.
func withSystemClusterFile(text string, words ...string) []string {
	const script = `d=$(mktemp -d); cp -a /etc/. "$d"; chmod 755 "$d"; mkdir -p "$d/remshell"; printf %s "$1" >"$d/remshell/cluster.toml"; mount --bind "$d" /etc; shift; exec "$@"`
	return append([]string{"unshare", "-m", "sh", "-ec", script, "sh", text}, words...)
}

// A word with a running job by one of its nodes (survive.md 7): its ranks on all nodes are told, another
// user gets nothing but the claims, and whom the node's own administrators name ends it.
func TestAsks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	b.shareRepo(t)
	const cluster = "administrators = [\"54321\"]\n[[node]]\nname = \"localhost\"\n[[node]]\nname = \"n[1-2]\"\n"
	mine := b.startCommand(t, mpiexecCall{}, withSystemClusterFile(cluster, binary, "-host", "localhost,n1,n2", "-ppn", "1", "-n", "3", "sh", "-c", "echo up; exec sleep 600"))
	if !poll(goneTimeout, func() bool { return strings.Count(mine.out.String(), "up") == 3 }) {
		t.Fatalf("%q, %q", mine.out.String(), mine.err.String())
	}
	id := b.readListing(t, "localhost").Jobs[0].Job
	patient := func(ask func() result) (r result) { // a job of a slow machine has not answered in 10 s yet
		for range 20 {
			if r = ask(); !strings.Contains(r.err, "the job did not reply") {
				break
			}
		}
		return r
	}
	say := func(args ...string) result { return patient(func() result { return b.runMpiexec(t, args...) }) }
	one := say("--status", "last", "--json", "localhost")
	var told struct{ Ranks []struct{ Node string } }
	if err := json.Unmarshal([]byte(one.out), &told); err != nil || len(told.Ranks) != 3 || told.Ranks[2].Node != "n2" {
		t.Errorf("%v, %q, %q", err, one.out, one.err)
	}
	as := func(uid int, args ...string) result {
		return patient(func() result {
			return b.startMpiexec(t, mpiexecCall{args: args, env: []string{"HOME=/", "USER=somebody"}, uid: uid}).wait(t)
		})
	}
	state := func(want string) {
		t.Helper()
		var r result
		if !poll(goneTimeout, func() bool {
			r = b.runMpiexec(t, "--status", id, "localhost")
			return strings.Count(r.out, " "+want+" ") == 3
		}) {
			t.Errorf("not %s: %q, %q", want, r.out, r.err)
		}
	}
	for range 2 {
		if r := say("--suspend", id, "localhost"); r.code != 0 {
			t.Errorf("exit %d, %q", r.code, r.err)
		}
		state("stopped")
		if r := say("--resume-job", "last", "localhost"); r.code != 0 {
			t.Errorf("exit %d, %q", r.code, r.err)
		}
		state("running")
	}
	for _, words := range [][]string{{"--resume-job", id, "not suspended"}, {"--checkpoint", id, "the job cannot write checkpoints: it was started without"}, {"--migrate", id, "the job cannot be moved: it was started without --restart"}, {"--suspend", id, ""}, {"--suspend", id, "already suspended"}} {
		if r := say(words[0], words[1], "localhost"); (r.code == 0) != (words[2] == "") || !strings.Contains(r.err, words[2]) {
			t.Errorf("%q: exit %d, %q", words, r.code, r.err)
		}
	}
	notAllowed := "localhost: you may not do this, because job " + id + " belongs to user root"
	if r := as(12345, "--end", id, "localhost"); r.code != 125 || !strings.Contains(r.err, notAllowed) || !strings.Contains(r.err, "root and the administrators of localhost may") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := as(12345, "--status", id, "localhost"); r.code != 0 || !strings.Contains(r.out, "job      "+id+" is suspended") || strings.Contains(r.out, "waits in") || !strings.Contains(r.err, notAllowed) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if r := as(12345, "--end", "last", "localhost"); r.code != 125 || !strings.Contains(r.err, "you have no job on these hosts") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := as(54321, "--end", id, "localhost"); r.code != 0 || !strings.Contains(r.err, "job "+id+": the job has ended") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := mine.wait(t); r.code != 143 || !strings.Contains(r.err, "ended by uid 54321 (administrator) with --end") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	killed := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost,n1", "-ppn", "1", "-n", "2", "sh", "-c", "echo up; exec sleep 600"}})
	if !poll(goneTimeout, func() bool { return strings.Count(killed.out.String(), "up") == 2 }) {
		t.Fatalf("%q, %q", killed.out.String(), killed.err.String())
	}
	if r := say("--suspend", "last", "localhost"); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	killed.cmd.Process.Kill()
	killed.wait(t)
	if !poll(goneTimeout, func() bool { return len(b.readListing(t, "localhost", "n1").Jobs) == 0 }) {
		t.Error("a suspended job outlives its mpiexec")
	}
	if jobs := b.readListing(t, "localhost", "n1", "n2").Jobs; len(jobs) != 0 {
		t.Errorf("left: %+v", jobs)
	}
}
