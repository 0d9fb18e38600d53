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

// A mute accepts all connections and says nothing. Its end waits for that of all who have come: who was begun last may have been given
// up before he had.
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

// hasty goes on at once, but would wait for a single address as long as a test lasts.
var hasty = timeouts{nextAddress: time.Millisecond, nextAfterAccept: time.Millisecond, accept: 10 * time.Minute, round: 10 * time.Minute, pause: time.Millisecond}

// Fifteen addresses that accept and say nothing keep no helper from that of mpiexec behind them (K9), and their connections are closed then.
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
		t.Errorf("mpiexec was told of a stranger: %s", <-refused)
	}
}

// All addresses are mpiexec's own, and all are tried at once: it is called once, and tells of no stranger.
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
		t.Errorf("strangers are told of: %s", <-refused)
	}
}

// Where all are silent the round ends by its own time, and it is told of the last. A refusal is believed at once.
func TestCallsInVain(t *testing.T) {
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
