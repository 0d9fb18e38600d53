//go:build linux

package helper

import (
	"net"
	"strings"
	"testing"

	"remshell/job"
	"remshell/wire"
)

// The PMIx port is open as long as a rank uses it, is no descriptor of a rank, and is closed with the last rank
// (PMIX-17).
func TestPMIxPortGoesWithTheRanks(t *testing.T) {
	k := newTestHelper(t)
	const script = `echo "at $PMIX_SERVER_URI3"; ls -l /proc/self/fd | grep -c socket: ; echo said; read go`
	k.prepareAs(func(m *wire.Prepare) {
		m.Group.Name, m.PMI.Token = "test", "0123456789abcdef"
		m.Apps[0].PMIOffer = job.PMIOfferPMIx
	}, script)
	k.conn.Send(&wire.Start{Group: "test"})
	k.awaitOutput(0, "said\n")
	_, at, _ := strings.Cut(strings.SplitN(k.out[0], "\n", 2)[0], "tcp4://")
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatalf("%q: %v", k.out[0], err)
	}
	conn.Close()
	if !strings.Contains(k.out[0], "\n0\n") {
		t.Errorf("the rank has a socket: %q", k.out[0])
	}
	k.conn.Send(&wire.Data{Rank: 0, Stream: wire.Stdin, Bytes: []byte("go\n")})
	receive[*wire.Exited](k)
	k.bye() // Drained has arrived
	if conn, err := net.Dial("tcp", at); err == nil {
		conn.Close()
		t.Error("the port is there when the ranks are over")
	}
}
