//go:build linux

package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A user who claims CPUs under the ID of another user's job, and answers for it, has nobody believe that something was done. Requests
// that name the job fail until they name its user, too; then they are for that user's job alone. The user himself needs no name.
func TestImpostor(t *testing.T) {
	t.Parallel()
	// The kernel counts as the memory of a child what the process had that has started it: here python, and not this test.
	const peak = `import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print("peak:", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)`
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	const ann, evil = 12345, 12346
	impostor := filepath.Join(filepath.Dir(binary), "impostor")
	if err := build(impostor, "./testdata/impostor"); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=/", "USER=somebody"}
	hers := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "2", "sh", "-c", "trap 'echo got it' USR1; echo up; while :; do sleep 0.1; done"}, env: env, uid: ann})
	hers.awaitOut(t, "up", 2)
	id := b.readListing(t, "localhost").Jobs[0].Job
	in, out := inputPipe(t)
	his := b.startCommand(t, mpiexecCall{uid: evil, env: env, stdin: in}, []string{impostor, id})
	his.awaitOut(t, "ready", 1)
	patient := func(j mpiexecCall) (r result) { // a job of a slow machine has not answered in 10 s yet
		for range 20 {
			if r = b.startMpiexec(t, j).wait(t); !strings.Contains(r.err, "the job did not reply") {
				break
			}
		}
		return r
	}
	for _, words := range [][]string{{"--end"}, {"--suspend"}, {"--resume-job"}, {"--checkpoint"}, {"--migrate"}, {"--signal", "USR1"}, {"--evict"}} {
		r := b.runMpiexec(t, append(words, id, "localhost")...)
		if r.code != 125 || !strings.Contains(r.err, fmt.Sprintf("2 users have a job with the ID %s: %d on localhost; %d on localhost", id, ann, evil)) ||
			!strings.Contains(r.err, fmt.Sprintf("add the user to the ID: %s@%d or %s@%d", id, ann, id, evil)) {
			t.Errorf("%s: exit %d, %q", words, r.code, r.err)
		}
	}
	both := b.runMpiexec(t, "--status", id, "localhost")
	if both.code != 0 || strings.Count(both.out, "job      "+id+" runs") != 2 || strings.Contains(both.out, "waits in") || !strings.Contains(both.err, "2 users have a job with the ID "+id) {
		t.Errorf("exit %d, %q, %q", both.code, both.out, both.err)
	}
	at := func(uid int) string { return fmt.Sprintf("%s@%d", id, uid) }
	if r := patient(mpiexecCall{args: []string{"--status", at(ann), "localhost"}}); r.code != 0 || r.err != "" || strings.Count(r.out, "job      "+id+" runs") != 1 || !strings.Contains(r.out, "user     "+fmt.Sprint(ann)) {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	r := b.startCommand(t, mpiexecCall{}, []string{python, "-c", peak, binary, "--status", at(evil), "localhost"}).wait(t)
	_, text, _ := strings.Cut(r.err, "peak: ")
	kib, err := strconv.Atoi(strings.TrimSpace(text))
	if r.code != 0 || !strings.Contains(r.out, "user     "+fmt.Sprint(evil)) || err != nil || kib > 256<<10 || r.took > time.Minute {
		t.Errorf("the status of the impostor: exit %d after %v, %d MiB, %.500q, %q", r.code, r.took, kib>>10, r.out, r.err)
	}
	t.Logf("the status of the impostor took %v and %d MiB", r.took, kib>>10)
	if r := b.runMpiexec(t, "--signal", "USR1", at(ann), "localhost"); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	hers.awaitOut(t, "got it", 2)
	if r := patient(mpiexecCall{args: []string{"--suspend", id, "localhost"}, env: env, uid: ann}); r.code != 0 { // the user herself
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := patient(mpiexecCall{args: []string{"--resume-job", at(ann), "localhost"}}); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := patient(mpiexecCall{args: []string{"--end", at(ann), "localhost"}}); r.code != 0 || !strings.Contains(r.err, "the job has ended") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := hers.wait(t); r.code != 143 || !strings.Contains(r.err, "ended by root") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	// The impostor says that his job has ended, and keeps it.
	if r := b.runMpiexec(t, "--end", id, "localhost"); r.code != 125 || !strings.Contains(r.err, "reported that it has ended, but the job still uses CPUs on this host") || !strings.Contains(r.err, "mpiexec --evict "+id+" localhost") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := b.runMpiexec(t, "--evict", id, "localhost"); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	out.Close()
	his.wait(t)
	b.noClaims(t, "localhost")
}

// 10,050 empty files of one user in the ledger hide his jobs and nobody else's: others are listed and get signals, and the user is named.
func TestOneUserDoesNotBlindOthers(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	b.shareRepo(t)
	const evil = 12347
	env := []string{"HOME=/", "USER=somebody"}
	if r := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1", "true"}, env: env, uid: evil}).wait(t); r.code != 0 { // makes his directory
		t.Fatalf("exit %d, %q", r.code, r.err)
	}
	const flood = `set -- /var/tmp/remshell-*-12347; for i in $(seq 10050); do : >"$1/claim-$i"; done`
	if r := b.startCommand(t, mpiexecCall{uid: evil}, []string{"sh", "-ec", flood}).wait(t); r.code != 0 {
		t.Fatalf("exit %d, %q", r.code, r.err)
	}
	mine := b.startMpiexec(t, mpiexecCall{args: []string{"-host", "localhost", "-n", "1", "sh", "-c", "trap 'echo got it; exit 0' USR1; echo up; while :; do sleep 0.1; done"}})
	mine.awaitOut(t, "up", 1)
	notice := "localhost: the list of jobs is incomplete: /var/tmp has too many files of uid 12347 (there are more than 10,000 files); an administrator can remove them"
	ps := b.runMpiexec(t, "--ps", "localhost")
	if ps.code != 0 || !strings.Contains(ps.out, "sh -c trap") || !strings.Contains(ps.err, notice) {
		t.Errorf("exit %d, %q, %q", ps.code, ps.out, ps.err)
	}
	id := b.readListing(t, "localhost").Jobs[0].Job
	if r := b.runMpiexec(t, "--signal", "USR1", id, "localhost"); r.code != 0 || !strings.Contains(r.err, notice) {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if r := mine.wait(t); r.code != 0 || !strings.Contains(r.out, "got it") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
