package dialback

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// A refusalLog receives the reasons of refused connections.
type refusalLog chan string

func (l refusalLog) refuse(_ netip.Addr, why string) { l <- why }

// open opens a listener for hosts, and returns its join token.
func open(t *testing.T, hosts ...string) (*Listener, JoinToken, refusalLog) {
	t.Helper()
	refused := make(refusalLog, 1000)
	d, err := Open(hosts, Ports{}, refused.refuse)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, d.JoinToken([]netip.Addr{loopback}), refused
}

// echoed checks that bytes go both ways between a helper and its connection at the listener.
func echoed(t *testing.T, helper io.ReadWriter, a Connection) {
	t.Helper()
	go io.Copy(a.Stream, a.Stream)
	sent := bytes.Repeat([]byte("all bytes\x00\xff"), 1000)
	go helper.Write(sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(helper, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v, equal: %t", err, bytes.Equal(got, sent))
	}
}

// Each helper connects once, in any order; then the port is closed.
func TestDialBack(t *testing.T) {
	d, i, _ := open(t, "n1", "n2", "n3")
	for _, host := range []string{"n2", "n1"} {
		conn, err := DialBack(t.Context(), i, host, netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		a := <-d.Connections()
		if a.Host != host {
			t.Errorf("%s arrived, want %s", a.Host, host)
		}
		echoed(t, conn, a)
	}
	if conn, err := net.Dial("tcp", i.Addresses[0].String()); err != nil {
		t.Errorf("the port is closed while n3 is expected: %v", err)
	} else {
		conn.Close()
	}
	d.StopExpecting("n3")
	if conn, err := net.Dial("tcp", i.Addresses[0].String()); err == nil {
		conn.Close()
		t.Error("the port is open, and no host is expected")
	}
}

// A token that others can read lets only those connect that know the secret, too.
func TestPublicToken(t *testing.T) {
	d, private, refused := open(t, "n1")
	public := d.PublicJoinToken([]netip.Addr{loopback}, "PBS_JOBCOOKIE", "6B8B4567")
	read, err := ReadJoinToken(strings.NewReader(public.Text()))
	if err != nil || read.Secret != "PBS_JOBCOOKIE" || strings.Contains(public.Text(), "6B8B4567") || strings.Contains(public.Text(), fmt.Sprintf("%x", read.WithSecret("6B8B4567").Token)) {
		t.Fatalf("%v, %+v: %s", err, read, public.Text())
	}
	for name, token := range map[string]JoinToken{"without a secret": read, "with another": read.WithSecret("6B8B4568"), "with an empty one": read.WithSecret(""), "the token as it was": private} {
		if _, err := DialBack(t.Context(), token, "n1", netip.Addr{}); err == nil || <-refused != "wrong token" {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, err := DialBack(t.Context(), read.WithSecret("6B8B4567"), "n1", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
}

// Connections that are not of expected helpers are refused, with these reasons. Expected helpers can still connect.
func TestOtherConnectionsAreRefused(t *testing.T) {
	d, i, refused := open(t, "n1", "n2")
	wrong := i
	wrong.Token[7] ^= 1
	junk := func(text string) func() error {
		return func() error {
			conn, err := net.Dial("tcp", i.Addresses[0].String())
			if err == nil {
				io.WriteString(conn, text)
				_, err = io.Copy(io.Discard, conn)
				conn.Close()
			}
			return err
		}
	}
	call := func(i JoinToken, host string) func() error {
		return func() error {
			_, err := DialBack(t.Context(), i, host, netip.Addr{})
			return err
		}
	}
	for _, test := range []struct {
		name string
		do   func() error
		why  string
	}{
		{"no TLS", junk("GET / HTTP/1.1\r\n\r\n"), "the connection does not use the protocol of mpiexec"},
		{"a wrong token", call(wrong, "n1"), "wrong token"},
		{"a host of others", call(i, "n9"), `host "n9" was not expected`},
		{"a name that is none", call(i, "n1\n\x1b[31m"), `host "n1\n\x1b[31m" was not expected`},
		{"TLS and junk", func() error { return sendByTLS(i, []byte(strings.Repeat("x", 100))) }, "the connection does not use the protocol of mpiexec"},
		{"a proof for another connection", func() error { return sendByTLS(i, proof{"n1", computeMAC(i.Token, make([]byte, 32), "n1")}.bytes()) }, "wrong token"},
	} {
		var refusal *Refusal
		err := test.do()
		if why := <-refused; why != test.why || errors.As(err, &refusal) && refusal.Why != test.why {
			t.Errorf("%s: %q, error %v; want %q", test.name, why, err, test.why)
		}
	}
	silent, err := net.Dial("tcp", i.Addresses[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
	err = call(i, "n1")()
	if why := <-refused; why != "n1 has connected already, or is no longer expected" || err == nil {
		t.Errorf("n1 connected twice: %q, %v", why, err)
	}
	d.Close()
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("the silent connection is still open: %d", n)
	}
}

// sendByTLS connects as a helper does, and sends text in place of a proof.
func sendByTLS(i JoinToken, text []byte) error {
	conn, err := tls.Dial("tcp", i.Addresses[0].String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Write(text)
	why, err := readReply(conn)
	if err == nil {
		err = &Refusal{why}
	}
	return err
}

// A thousand silent connections do not keep a helper from connecting: the oldest are closed.
func TestPendingConnectionsAreLimited(t *testing.T) {
	d, i, refused := open(t, "n1")
	var first net.Conn
	for n := range 1000 {
		conn, err := net.Dial("tcp", i.Addresses[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if n == 0 {
			first = conn
		}
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("something was sent to the first of them")
	}
	d.mu.Lock()
	kept := len(d.pending)
	d.mu.Unlock()
	if kept > maxPending+2 {
		t.Errorf("%d are kept", kept)
	}
	conn, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
	if len(refused) > 0 {
		t.Errorf("they are reported: %s", <-refused)
	}
}

// A helper sends no proof to a server without the certificate of its token, and tries the next address.
func TestHelperChecksTheCertificate(t *testing.T) {
	_, other, refusedByOther := open(t, "n1")
	d, i, _ := open(t, "n1")
	i.Addresses = append(other.Addresses, i.Addresses...)
	conn, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
	if why := <-refusedByOther; why != "the connection does not use the protocol of mpiexec" {
		t.Errorf("the other server received more: %s", why)
	}
}

// A helper that cannot connect returns why.
func TestDialBackFails(t *testing.T) {
	d, i, _ := open(t, "n1")
	d.Close()
	_, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if want := fmt.Sprintf("%s: connection refused", i.Addresses[0]); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := DialBack(ctx, i, "n1", netip.Addr{}); err == nil {
		t.Error("it connects although ctx has ended")
	}
}

// The address that the batch system gives is tried first, once.
func TestOrderAddresses(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:7"), netip.MustParseAddrPort("10.1.0.1:7")
	for near, want := range map[string]string{"": "[10.0.0.1:7 10.1.0.1:7]", "10.1.0.1": "[10.1.0.1:7 10.0.0.1:7]", "::ffff:10.1.0.1": "[10.1.0.1:7 10.0.0.1:7]",
		"10.2.0.1": "[10.2.0.1:7 10.0.0.1:7 10.1.0.1:7]", "n1": "[10.0.0.1:7 10.1.0.1:7]"} {
		address, _ := netip.ParseAddr(near)
		if got := fmt.Sprint(orderAddresses([]netip.AddrPort{a, b}, address)); got != want {
			t.Errorf("near %q: %s, want %s", near, got, want)
		}
	}
}

// Only ports of the range are opened. If none is free, the error says so.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if d, err := Open([]string{"n1"}, Ports{port, port}, refusalLog(nil).refuse); err == nil {
		d.Close()
		t.Error("a port was opened that is not free")
	} else if want := fmt.Sprintf("no port from %d to %d is free: ", port, port); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	l.Close()
	// Another program may take the port meanwhile, but not all sixteen.
	d, err := Open([]string{"n1"}, Ports{port &^ 15, port | 15}, refusalLog(nil).refuse)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Port()&^15 != port&^15 {
		t.Errorf("port %d, want one from %d to %d", d.Port(), port&^15, port|15)
	}
}

// A token that was written can be read again; other texts are errors.
func TestReadJoinToken(t *testing.T) {
	_, i, _ := open(t, "n1")
	i.Addresses = append(i.Addresses, netip.MustParseAddrPort("[fd00::1]:40112"))
	good := i.Text()
	for _, i.Streams = range []bool{true, false} {
		if got, err := ReadJoinToken(strings.NewReader(i.Text() + "more")); err != nil || fmt.Sprint(got) != fmt.Sprint(i) {
			t.Errorf("%v: %+v, want %+v", err, got, i)
		}
	}
	lines := strings.SplitAfter(good, "\n")
	for _, bad := range []string{"", "x", good[:len(good)-1], strings.Replace(good, "2\n", "3\n", 1), strings.Replace(good, "token ", "token 0", 1),
		strings.Replace(good, "certificate", "token", 1), strings.Replace(good, "127.0.0.1", "localhost", 1),
		strings.Join(lines[:3], "") + "end\n", strings.Join(lines[:3], "") + strings.Repeat(lines[3], 17) + "end\n", strings.Repeat("x", 1<<20)} {
		if got, err := ReadJoinToken(strings.NewReader(bad)); err == nil {
			t.Errorf("%.200q is taken for %+v", bad, got)
		}
	}
}

// A token comes from the network. Any other text does no harm, and the number of addresses is limited.
func FuzzReadJoinToken(f *testing.F) {
	f.Add(JoinToken{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7"), netip.MustParseAddrPort("[fd00::1%eth0]:40112")}}.Text())
	f.Add(JoinToken{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7")}, Streams: true}.Text())
	f.Add(JoinToken{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7")}, Secret: "PBS_JOBCOOKIE"}.Text())
	f.Add(tokenHead + "\ncertificate zz\n")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := ReadJoinToken(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(i.Addresses) == 0 || len(i.Addresses) > maxAddresses {
			t.Fatalf("%d addresses", len(i.Addresses))
		}
		again, err := ReadJoinToken(strings.NewReader(i.Text()))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(i) {
			t.Fatalf("%v: %+v is read as %+v", err, i, again)
		}
	})
}

// The first bytes of a pending connection may be anything.
func FuzzReadProof(f *testing.F) {
	f.Add(proof{host: "n1"}.bytes())
	f.Add([]byte(proofHead + "\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		p, err := readProof(in)
		if err != nil {
			return
		}
		if read := len(data) - in.Len(); !bytes.Equal(p.bytes(), data[:read]) {
			t.Fatalf("%q is read as %+v", data, p)
		}
	})
}
