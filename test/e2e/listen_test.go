//go:build linux

package e2e

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// watchListeningPorts reads the network tables of a host again and again until stop is called, which returns
// all TCP sockets that listened there and not on loopback alone, by address and port, and how
// often it looked.
func (b *testCluster) watchListeningPorts(t *testing.T, host string) (stop func() (open map[string]bool, looks int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := b.On(ctx, host, "sh", "-c", "while cat /proc/net/tcp; do cat /proc/net/tcp6; done 2>/dev/null")
	out, in := io.Pipe()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	open, looks := make(map[string]bool), 0
	first, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			cells := strings.Fields(lines.Text()) // proc_pid_net(5): sl local remote st
			switch {
			case len(cells) < 4:
			case cells[0] == "sl":
				if looks++; looks == 4 {
					close(first)
				}
			case cells[3] == "0A" && !strings.HasSuffix(strings.Split(cells[1], ":")[0], "7F") && !strings.HasPrefix(cells[1], "00000000000000000000000001000000:"):
				open[cells[1]] = true
			}
		}
	}()
	go cmd.Wait()
	<-first
	return func() (map[string]bool, int) {
		defer cancel()
		out.Close() // it ends when nobody reads it
		<-done
		return open, looks
	}
}

// At no moment of a job, however it runs, does anything of ours listen where others can reach
// it (TRUST-26). What listened before is not ours.
func TestNobodyListensAtAnyMoment(t *testing.T) {
	t.Parallel()
	talk := bundledProgram(t, "pmitalk")
	b := newTestCluster(t, testbed.Options{Hosts: 2})
	b.requireNamespaces(t)
	for name, line := range map[string]string{
		"ssh":    "-hosts n1:2,n2:2 -n 4 PROGRAM barrier",
		"local":  "-hosts localhost:2 -n 2 PROGRAM barrier",
		"port":   "-pmi-port -hosts localhost:1,n1:2 -n 3 PROGRAM barrier",
		"torch":  "--env-compat torch -hosts localhost:1,n1:2 -n 3 PROGRAM barrier",
		"spawn":  "-hosts localhost:1,n1:2 -n 1 PROGRAM spawn~2~hi",
		"status": "--status -hosts n1:2 -n 2 PROGRAM barrier",
	} {
		for host, also := range map[string]bool{testbed.Head: name == "torch", "n1": false} {
			before := b.watchListeningPorts(t, host)
			known, _ := before()
			stop := b.watchListeningPorts(t, host)
			if name == "status" {
				b.runOnHead(t, binary, "--status", "n1")
			} else {
				var args []string
				for _, word := range strings.Fields(line) {
					args = append(args, strings.ReplaceAll(strings.ReplaceAll(word, "PROGRAM", talk), "~", " "))
				}
				r := b.startMpiexec(t, mpiexecCall{args: args, env: []string{"TALK_hi=hello"}}).wait(t)
				if r.code != 0 {
					t.Errorf("%s: exit %d: %s%s", name, r.code, r.out, r.err)
				}
			}
			open, looks := stop()
			for door := range open {
				if !known[door] && !also {
					t.Errorf("%s: %s listened on %s", name, door, host)
				}
			}
			t.Logf("%s: looked %d times at %s, %d doors known", name, looks, host, len(known))
		}
	}
}

// A process of another user that knows all, the PMI_ID of a rank too, is refused at the port;
// one of ours is not (TRUST-25).
func TestPMIPortAndAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a second user, and so root")
	}
	b := newTestCluster(t, testbed.Options{Hosts: 1})
	b.requireNamespaces(t)
	const knock = `exec 3<>/dev/tcp/${PMI_PORT%:*}/${PMI_PORT##*:}; printf "cmd=initack pmiid=$PMI_ID\n" >&3; head -n 1 <&3 2>/dev/null`
	r := b.startMpiexec(t, mpiexecCall{args: []string{"-pmi-port", "-hosts", "n1:1", "-n", "1", "bash", "-c",
		`knock='` + knock + `'; echo "his: $(setpriv --reuid=4242 --regid=4242 --clear-groups bash -c "$knock")"; echo "ours: $(bash -c "$knock")"`}}).wait(t)
	if !strings.Contains(r.out, "his: \nours: cmd=initack") {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	if !strings.Contains(r.err, "refused a connection to the PMI port: it came from a process of another user") {
		t.Errorf("nothing is told: %q", r.err)
	}
}
