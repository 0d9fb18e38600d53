//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// README's dry run, of hosts without a number of slots, had no plan unless --probe was there, too.
func TestADryRunLooksAtItsHosts(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	text, err := os.ReadFile(filepath.Join(repo, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`bin/mpiexec (-f hosts\.txt --dry-run \S+)`).FindSubmatch(text)
	if line == nil {
		t.Fatal("README has no dry run")
	}
	hosts := filepath.Join(t.TempDir(), "hosts.txt")
	if err := os.WriteFile(hosts, []byte("n1\nn2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.Replace(string(line[1]), "hosts.txt", hosts, 1))
	r := b.run(t, args...)
	if r.code != 0 || r.err != "" || !regexp.MustCompile(`(?m)^  n1\n    rank.* CPUs? `).MatchString(r.out) || !strings.Contains(r.out, "\n  n2\n") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, append(args, "--no-probe")...) // is an argument of the program
	if r.code != 0 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, append([]string{"--no-probe"}, args...)...)
	if r.code != 125 || !strings.Contains(r.out, "no plan") || !strings.Contains(r.out, "no host was contacted") {
		t.Errorf("--no-probe: exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = b.run(t, "--dry-run", "-host", "n1,nowhere.invalid", "-n", "2", "true")
	if r.code != 125 || !strings.Contains(r.err, "nowhere.invalid: resolve: host name unknown") {
		t.Errorf("a host that is not there: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// Each request that names a job understands "last" and the front of a name; of a front that several jobs have it lists these.
func TestJobsAreNamedByLastAndByTheFront(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 1})
	const script = `trap "echo USR1 came" USR1; echo up; while :; do sleep 600 & wait $!; done`
	var running []*running
	var ids []string
	for len(ids) < 3 {
		r := b.start(t, job{args: []string{"-host", "n1", "--oversubscribe", "-n", "1", "sh", "-c", script}})
		r.await(t, "up", 1)
		running = append(running, r)
		for _, j := range b.listing(t, "n1").Jobs {
			if !slices.Contains(ids, j.Job) {
				ids = append(ids, j.Job)
			}
		}
		if len(ids) != len(running) {
			t.Fatalf("%d jobs run, and these are listed: %q", len(running), ids)
		}
	}
	say := func(option, name string) (r result) {
		args := append(strings.Fields(option), name, "n1")
		for range 20 { // a job of a slow machine has not answered in 10 s yet
			if r = b.run(t, args...); !strings.Contains(r.err, "no answer from job") {
				break
			}
		}
		return r
	}
	shared := ids[0]
	for !strings.HasPrefix(ids[1], shared) || !strings.HasPrefix(ids[2], shared) {
		shared = shared[:len(shared)-1]
	}
	front := func(of int) string { // the shortest that no other has
		n := 1
		for ; slices.ContainsFunc(ids, func(id string) bool { return id != ids[of] && strings.HasPrefix(id, ids[of][:n]) }); n++ {
		}
		return ids[of][:n]
	}
	all := []struct {
		option string
		says   string // besides the ID; empty: it must succeed
	}{
		{"--status", ""}, {"--signal USR1", ""}, {"--suspend", ""}, {"--resume-job", ""}, {"--suspend=free", ""}, {"--resume-job", ""},
		{"--checkpoint", "cannot checkpoint: it was started without"}, {"--migrate", "cannot be moved: it was started without --restart"},
	}
	asked := []string{"--end", "--evict"}
	for _, row := range all {
		asked = append(asked, strings.Fields(row.option)[0])
		for _, name := range []string{"last", front(1)} {
			r := say(row.option, name)
			want := row.says
			if row.option == "--status" {
				if want = ids[2]; name == front(1) {
					want = ids[1]
				}
			}
			if (r.code == 0) != (row.says == "") || !strings.Contains(r.out+r.err, want) {
				t.Errorf("%s %s: exit %d\n%s%s", row.option, name, r.code, r.out, r.err)
			}
		}
	}
	for _, r := range running[1:] {
		r.await(t, "USR1 came", 1)
	}
	if strings.Contains(running[0].out.String(), "USR1 came") {
		t.Error("the first job got a signal that was another's")
	}
	for _, option := range asked {
		if option == "--signal" {
			option += " USR1"
		}
		r := say(option, shared)
		if r.code != 125 || !strings.Contains(r.err, "3 jobs begin with "+shared+"; write more of the name\n  "+ids[0]+"  ") || strings.Count(r.err, "\n") != 4 {
			t.Errorf("%s %s: exit %d\n%s%s", option, shared, r.code, r.out, r.err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)[^\n]* JOB `).FindAllStringSubmatch(b.run(t, "-help", "all").out, -1) {
		if !slices.Contains(asked, m[1]) {
			t.Errorf("%s JOB is not tried here", m[1])
		}
	}
	if r := say("--end", "last"); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if r := running[2].wait(t); r.code != 143 {
		t.Errorf("ended with %d: %s", r.code, r.err)
	}
	if r := say("--end", front(1)); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	running[1].wait(t)
	if r := say("--evict", "last"); r.code != 0 || !strings.Contains(r.err, "n1: the claim of job "+ids[0]) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	running[0].wait(t)
}
