//go:build linux

package proc

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// pair opens a connection over the loopback of an address, and returns its ends.
func pair(t *testing.T, address string) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err) // no such loopback here
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

func endsOf(conn net.Conn) (local, remote netip.AddrPort) {
	return conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
}

func TestSocketOwner(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := pair(t, address)
		here, there := endsOf(server)
		if uid, err := SocketOwner(there, here); uid != os.Geteuid() || err != nil {
			t.Errorf("%s: owner %d (%v), want %d", address, uid, err, os.Geteuid())
		}
		if _, err := SocketOwner(there, there); !errors.Is(err, ErrNoSocket) {
			t.Errorf("%s: a socket that there is not: %v", address, err)
		}
		client.Close()
		if _, err := SocketOwner(there, here); !errors.Is(err, ErrNoSocket) {
			t.Errorf("%s: a socket that was closed: %v", address, err)
		}
	}
}

// The owner of another user's socket is reported. Root can give one away: the kernel takes the owner of the file as
// the owner of the socket.
func TestSocketOwnerIsAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have a socket of another user")
	}
	const other = 65534
	client, server := pair(t, "127.0.0.1:0")
	raw, err := client.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Fchown(int(fd), other, -1) })
	if err != nil {
		t.Fatal(err)
	}
	here, there := endsOf(server)
	if uid, err := SocketOwner(there, here); uid != other || err != nil {
		t.Errorf("owner %d (%v), want %d", uid, err, other)
	}
}

// An error of the kernel is returned as an error, and never as uid 0, which is root.
func TestDiagAnswer(t *testing.T) {
	good := make([]byte, diagReplySize)
	binary.NativeEndian.PutUint16(good[4:], diagKind)
	good[17] = diagEstablished
	binary.NativeEndian.PutUint32(good[80:], 1001)
	binary.NativeEndian.PutUint32(good[84:], 5)
	if uid, err := parseDiagReply(good); uid != 1001 || err != nil {
		t.Fatalf("%d, %v", uid, err)
	}
	for cut := range good {
		if _, err := parseDiagReply(good[:cut]); err == nil {
			t.Errorf("an answer of %d bytes has an owner", cut)
		}
	}
	refused := make([]byte, 36)
	binary.NativeEndian.PutUint16(refused[4:], unix.NLMSG_ERROR)
	for errno, absent := range map[unix.Errno]bool{unix.ENOENT: true, unix.EPERM: false, unix.EOPNOTSUPP: false} {
		binary.NativeEndian.PutUint32(refused[16:], uint32(-int32(errno)))
		if _, err := parseDiagReply(refused); err == nil || errors.Is(err, ErrNoSocket) != absent {
			t.Errorf("%v is told as %v", errno, err)
		}
	}
}
