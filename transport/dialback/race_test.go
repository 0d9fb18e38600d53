package dialback

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// mute accepts all connections and sends nothing. end waits until all of them are closed.
func mute(t *testing.T) (at netip.AddrPort, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				io.Copy(io.Discard, conn)
				conn.Close()
			})
		}
	})
	return l.Addr().(*net.TCPAddr).AddrPort(), func() { l.Close(); open.Wait() }
}

// hasty tries the next address at once, but would wait for a single address as long as a test lasts.
var hasty = timeouts{nextAddress: time.Millisecond, nextAfterAccept: time.Millisecond, accept: 10 * time.Minute, round: 10 * time.Minute, pause: time.Millisecond}

// Fifteen addresses that accept and send nothing do not keep a helper from reaching mpiexec's address after them
// (K9). Their connections are closed then.
func TestSilentAddressesKeepNobody(t *testing.T) {
	d, i, refused := open(t, "n1")
	silent, end := mute(t)
	addresses := append(slices.Repeat([]netip.AddrPort{silent}, maxAddresses-1), i.Addresses...)
	conn, err := dialer{i, "n1", hasty}.dialRounds(t.Context(), addresses)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
	end()
	if len(refused) > 0 {
		t.Errorf("mpiexec refused a connection: %s", <-refused)
	}
}

// If all addresses are mpiexec's own, and all are tried at once, mpiexec accepts one connection and refuses none.
func TestAllAddressesAreMpiexecs(t *testing.T) {
	var hosts []string
	for n := range 20 {
		hosts = append(hosts, fmt.Sprintf("n%d", n))
	}
	d, i, refused := open(t, hosts...)
	at := timeouts{accept: hasty.accept, round: hasty.round}
	for _, host := range hosts {
		conn, err := dialer{i, host, at}.dialRounds(t.Context(), slices.Repeat(i.Addresses, maxAddresses))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if a := <-d.Connections(); a.Host != host {
			t.Errorf("%s arrived, want %s", a.Host, host)
		}
	}
	if len(refused) > 0 {
		t.Errorf("connections are refused: %s", <-refused)
	}
}

// If all addresses are silent, the round ends after its time limit, with the error of the last one. A refusal ends it
// at once.
func TestSilentRound(t *testing.T) {
	_, i, _ := open(t, "n1")
	silent, _ := mute(t)
	i.Streams = true
	short := hasty
	short.round = 50 * time.Millisecond
	_, err := dialer{i, "n1", short}.dialRounds(t.Context(), []netip.AddrPort{silent, silent})
	if want := silent.String() + ": no answer"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	var refusal *Refusal
	if _, err := (dialer{i, "n9", hasty}).dialRounds(t.Context(), []netip.AddrPort{silent, i.Addresses[0]}); !errors.As(err, &refusal) {
		t.Errorf("%v, want a refusal", err)
	}
}
