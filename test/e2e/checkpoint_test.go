//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// savingProgram counts the signals that ask it to write a checkpoint, and goes on where it was: rank 0 says by a file that
// one is complete, and when it sees that ranks of all hosts have had one, they leave to be started again.
const savingProgram = `n=$(cat $MPIEXEC_CKPT_DIR/saved 2>/dev/null || echo 0); asked=
trap 'asked=1' $MPIEXEC_CKPT_SIGNAL
if [ $MPIEXEC_ATTEMPT = 1 ]; then echo "attempt 1 on $(hostname) goes on at $n because of $MPIEXEC_RESTART_REASON"; exit 0; fi
echo ready
until [ -n "$asked" ]; do sleep 0.05; done
mkdir -p $MPIEXEC_CKPT_DIR; echo $((n+1)) > $MPIEXEC_CKPT_DIR/new.$MPIEXEC_RANK
mv $MPIEXEC_CKPT_DIR/new.$MPIEXEC_RANK $MPIEXEC_CKPT_DIR/saved
echo "asked on $(hostname)"
exit 85`

// All ranks of all hosts are asked to write a checkpoint, leave when they have, and go on from it (survive.md SV-13, SV-14).
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	dir := fmt.Sprintf("/tmp/saved-%d", time.Now().UnixNano())
	events := filepath.Join(t.TempDir(), "events")
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-hosts", "n1:2,n2:2", "-n", "4", "--restart", "1", "--restart-on", "code:85", "--restart-delay", "0.1",
		"--signal-leader-only", "--ckpt-every", "3", "--ckpt-signal", "USR1", "--ckpt-done", b.Root("n1") + dir + "/saved", "--ckpt-dir", dir,
		"--json=" + events, "sh", "-c", savingProgram}}).wait(t)
	defer os.RemoveAll(dir) // --ckpt-dir makes it here, too
	for text, n := range map[string]int{"asked on n1\n": 2, "asked on n2\n": 2, "attempt 1 on n1 goes on at 1 because of code\n": 2, "attempt 1 on n2 goes on at 1 because of code\n": 2} {
		if got := strings.Count(r.out, text); got != n {
			t.Errorf("%q is said %d times, want %d", text, got, n)
		}
	}
	told, _ := os.ReadFile(events)
	if r.code != 0 || !strings.Contains(string(told), `"event":"checkpoint","state":"asked"`) || !strings.Contains(string(told), `"event":"checkpoint","state":"done"`) {
		t.Errorf("exit %d\n%s\n%s\n%s", r.code, r.out, r.err, told)
	}
}
