//go:build linux

package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// semaphoreProgram makes three sets of 2 semaphores, uses those of the first, one of the second, and those of the third,
// of which a process of another job then uses one. It prints the IDs and is killed.
const semaphoreProgram = `
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sem.h>

static void use(int id, int number) {
	struct sembuf op = { number, 1, 0 };
	if (semop(id, &op, 1)) perror("semop"), exit(1);
}

int main(int argc, char **argv) {
	if (argc > 1) { use(atoi(argv[1]), 1); return 0; }
	int ids[3];
	for (int i = 0; i < 3; i++)
		if ((ids[i] = semget(IPC_PRIVATE, 2, 0600)) < 0) perror("semget"), exit(1);
	use(ids[0], 0), use(ids[0], 1), use(ids[1], 0), use(ids[2], 0), use(ids[2], 1);
	printf("sets %d %d %d\n", ids[0], ids[1], ids[2]);
	fflush(stdout);
	getchar(); /* until the other job has used the third */
	raise(SIGKILL);
}
`

// A killed rank's semaphore set is freed on its host if the rank used all semaphores last. A set with a semaphore that
// nobody has used, or that a process of another job has used last, stays. On this machine the same goes for an ordinary user.
func TestSemaphoresOfKilledRanks(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	dir, err := os.MkdirTemp(filepath.Join(repoRoot, "build"), "e2e-") // the host sees it, too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "semaphores")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program+".c", []byte(semaphoreProgram), 0o644)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-o", program, program+".c").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v %s", err, out)
	}
	for host, uid := range map[string]int{"n1": 0, "localhost": 12345} {
		stdin, input, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		start := func(stdin io.Reader, args ...string) *runningJob {
			call := mpiexecCall{args: append([]string{"-v", "-host", host, "-n", "1"}, args...), uid: uid, stdin: stdin}
			if uid != 0 {
				call.env = []string{"HOME=/", "USER=somebody"}
			}
			return b.startMpiexec(t, call)
		}
		r := start(stdin, program)
		r.awaitOut(t, "\n", 1)
		sets := strings.Fields(r.out.String())[1:]
		foreign := start(nil, program, sets[2]).wait(t)
		input.Close()
		res := r.wait(t)
		if foreign.code != 0 || res.code != 137 || !strings.Contains(res.err, "freed 1 semaphore set of rank 0") || !regexp.MustCompile(`[2-9] semaphore sets that you created after the start of the job`).MatchString(res.err) {
			t.Errorf("%s, uid %d: exits %d and %d, %s%s%s", host, uid, foreign.code, res.code, foreign.err, res.out, res.err)
		}
		for i, id := range sets {
			left := start(nil, "ipcrm", "-s", id).wait(t)
			if (left.code == 0) != (i > 0) {
				t.Errorf("%s, uid %d: set %d: ipcrm ends with %d, %s", host, uid, i, left.code, left.err)
			}
		}
	}
}
