//go:build linux

package helper

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// The port asks the kernel which user's process connects. Our own are accepted, others are not.
func TestPortChecksTheUser(t *testing.T) {
	warned := make(chan string, 1)
	p, err := openPMIPort(os.DirFS("/"), func(text string) { warned <- text })
	if err != nil {
		t.Fatal(err)
	}
	defer p.tcp.Close()
	come := func() (client, server net.Conn) {
		client, err := net.Dial("tcp", p.tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		if server, err = p.tcp.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return client, server
	}
	if _, server := come(); !p.isOwnUser(server) {
		t.Error("our own connection is taken for somebody else's")
	}
	_, server := come()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	p.root = fs.FS(fstest.MapFS{"proc/net/tcp": {Data: asUser(string(table), os.Geteuid()+1)}})
	if p.isOwnUser(server) {
		t.Error("a connection of another user is taken for ours")
	}
	p.root = fs.FS(fstest.MapFS{})
	if p.isOwnUser(server) {
		t.Error("a connection of nobody knows whom is taken for ours")
	}
	go p.acceptLoop()
	refused, err := net.Dial("tcp", p.tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if n, err := refused.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a connection of another user is accepted")
	}
	if text := <-warned; !strings.Contains(text, "refused") {
		t.Errorf("warning %q", text)
	}
}

// asUser changes the owner of all connections in a table.
func asUser(table string, uid int) []byte {
	var b strings.Builder
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 7 {
			f[7] = fmt.Sprint(uid)
		}
		b.WriteString(strings.Join(f, " ") + "\n")
	}
	return []byte(b.String())
}

// A connection that its peer has closed already is refused: the kernel then shows user 0, whoever it was.
func TestPortRefusesTheClosed(t *testing.T) {
	p, err := openPMIPort(os.DirFS("/"), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.tcp.Close()
	client, err := net.Dial("tcp", p.tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := p.tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client.Close()
	if n, err := server.Read(make([]byte, 1)); n > 0 || err == nil { // it was closed
		t.Fatal("a closed connection says something")
	}
	if p.isOwnUser(server) {
		t.Error("a closed connection is let in")
	}
}

// The port for torch's rendezvous is reserved, and no other process can get it meanwhile.
func TestAPortIsKeptWithoutListening(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1", "localhost", "192.0.2.7", "no.such.name.invalid"} {
		berth, port, err := reservePort(host)
		if err != nil {
			if host == "::1" {
				continue // no IPv6 here
			}
			t.Fatalf("%s: %v", host, err)
		}
		at := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		if host == "::1" {
			at = net.JoinHostPort(host, fmt.Sprint(port))
		}
		if conn, err := net.Dial("tcp", at); err == nil {
			conn.Close()
			t.Errorf("%s: port %d listens", host, port)
		}
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			t.Errorf("%s: port %d is free", host, port)
		}
		berth.Close()
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Errorf("%s: then it is for the ranks: %v", host, err)
			continue
		}
		l.Close()
	}
}
