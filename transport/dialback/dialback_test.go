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

// A bell hears who is refused.
type bell chan string

func (b bell) refuse(_ netip.Addr, why string) { b <- why }

// open opens a desk for hosts, and returns the invitation to it.
func open(t *testing.T, hosts ...string) (*Listener, JoinToken, bell) {
	t.Helper()
	refused := make(bell, 1000)
	d, err := Open(hosts, Ports{}, refused.refuse)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, d.JoinToken([]netip.Addr{loopback}), refused
}

// echoed checks that bytes go both ways between a helper and the arrival that it is.
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

// Each helper comes in once, whatever comes before it, and then the port is closed.
func TestCall(t *testing.T) {
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
		t.Errorf("the port is closed while n3 is waited for: %v", err)
	} else {
		conn.Close()
	}
	d.StopExpecting("n3")
	if conn, err := net.Dial("tcp", i.Addresses[0].String()); err == nil {
		conn.Close()
		t.Error("the port is open, and nobody is waited for")
	}
}

// Who connects and is no helper of the step is refused, in these words, and those of the step come in all the same.
func TestStrangersAreRefused(t *testing.T) {
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
		what string
		do   func() error
		why  string
	}{
		{"no TLS", junk("GET / HTTP/1.1\r\n\r\n"), "it does not speak as our helpers do"},
		{"a wrong token", call(wrong, "n1"), "wrong token"},
		{"a host of others", call(i, "n9"), `"n9" was not invited`},
		{"a name that is none", call(i, "n1\n\x1b[31m"), `"n1\n\x1b[31m" was not invited`},
		{"TLS and junk", func() error { return sayByTLS(i, []byte(strings.Repeat("x", 100))) }, "it does not speak as our helpers do"},
		{"what was said on another connection", func() error { return sayByTLS(i, proof{"n1", computeMAC(i.Token, make([]byte, 32), "n1")}.bytes()) }, "wrong token"},
	} {
		var refusal *Refusal
		err := test.do()
		if why := <-refused; why != test.why || errors.As(err, &refusal) && refusal.Why != test.why {
			t.Errorf("%s: %q, told %v; want %q", test.what, why, err, test.why)
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
	if why := <-refused; why != "n1 has called already, or is waited for no more" || err == nil {
		t.Errorf("n1 came twice: %q, %v", why, err)
	}
	d.Close()
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("who was silent is still there: %d", n)
	}
}

// sayByTLS connects as a helper would, and says something else.
func sayByTLS(i JoinToken, text []byte) error {
	conn, err := tls.Dial("tcp", i.Addresses[0].String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Write(text)
	why, err := readAnswer(conn)
	if err == nil {
		err = &Refusal{why}
	}
	return err
}

// A thousand who connect and say nothing keep nobody from coming in: the oldest have to go.
func TestSilentStrangersAreFew(t *testing.T) {
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
		t.Error("the first of them was told something")
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
		t.Errorf("it is told of them: %s", <-refused)
	}
}

// A helper tells nothing to who has not the certificate of its invitation, and goes on to the next address.
func TestHelperBelievesNobodyElse(t *testing.T) {
	_, other, strangers := open(t, "n1")
	d, i, _ := open(t, "n1")
	i.Addresses = append(other.Addresses, i.Addresses...)
	conn, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	echoed(t, conn, <-d.Connections())
	if why := <-strangers; why != "it does not speak as our helpers do" {
		t.Errorf("to the other it said more: %s", why)
	}
}

// A helper that can reach nobody says why, in a time that is bounded by the number of addresses.
func TestCallThatFails(t *testing.T) {
	d, i, _ := open(t, "n1")
	d.Close()
	_, err := DialBack(t.Context(), i, "n1", netip.Addr{})
	if want := fmt.Sprintf("%s: connection refused", i.Addresses[0]); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := DialBack(ctx, i, "n1", netip.Addr{}); err == nil {
		t.Error("it is called although it is over")
	}
}

// The address that the batch system tells is tried first, once.
func TestInOrder(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:7"), netip.MustParseAddrPort("10.1.0.1:7")
	for near, want := range map[string]string{"": "[10.0.0.1:7 10.1.0.1:7]", "10.1.0.1": "[10.1.0.1:7 10.0.0.1:7]", "::ffff:10.1.0.1": "[10.1.0.1:7 10.0.0.1:7]",
		"10.2.0.1": "[10.2.0.1:7 10.0.0.1:7 10.1.0.1:7]", "n1": "[10.0.0.1:7 10.1.0.1:7]"} {
		address, _ := netip.ParseAddr(near)
		if got := fmt.Sprint(orderAddresses([]netip.AddrPort{a, b}, address)); got != want {
			t.Errorf("near %q: %s, want %s", near, got, want)
		}
	}
}

// Only ports of the range are opened; if none is free that is told.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if d, err := Open([]string{"n1"}, Ports{port, port}, bell(nil).refuse); err == nil {
		d.Close()
		t.Error("a port was opened that is not free")
	} else if want := fmt.Sprintf("no port from %d to %d is free: ", port, port); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	l.Close()
	// Somebody else may take the port meanwhile, but not all of sixteen.
	d, err := Open([]string{"n1"}, Ports{port &^ 15, port | 15}, bell(nil).refuse)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Port()&^15 != port&^15 {
		t.Errorf("port %d, want one from %d to %d", d.Port(), port&^15, port|15)
	}
}

// What is read of an invitation is what was written, and nothing else is one.
func TestInvitation(t *testing.T) {
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

// An invitation is from the network of a cluster: nothing that is no invitation does harm, and what is read of it is
// bounded.
func FuzzReadInvitation(f *testing.F) {
	f.Add(JoinToken{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7"), netip.MustParseAddrPort("[fd00::1%eth0]:40112")}}.Text())
	f.Add(JoinToken{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7")}, Streams: true}.Text())
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

// What a stranger says first may be anything.
func FuzzReadProof(f *testing.F) {
	f.Add(proof{host: "n1"}.bytes())
	f.Add([]byte(proofHead + "\xff"))
	f.Fuzz(func(t *testing.T, said []byte) {
		in := bytes.NewReader(said)
		p, err := readProof(in)
		if err != nil {
			return
		}
		if read := len(said) - in.Len(); !bytes.Equal(p.bytes(), said[:read]) {
			t.Fatalf("%q is read as %+v", said, p)
		}
	})
}
