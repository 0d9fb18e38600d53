package launch_test

import (
	"bufio"
	"io"
	"net"
	"testing"

	"remshell/launch"
)

// A program that asks for a server gets the reply that there is none, in its protocol.
func TestSingletonIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		first, _ := in.ReadString('\n')
		io.WriteString(conn, "cmd=singinit pmi_version=1 pmi_subversion=1 stdio=yes authtype=none\n")
		second, _ := in.ReadString('\n')
		heard <- first + second
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	launch.RefuseSingleton(port)
	want := "cmd=singinit authtype=none\ncmd=singinit_info versionok=no stdio=no kvsname=none\n"
	if got := <-heard; got != want {
		t.Errorf("%q", got)
	}
}
