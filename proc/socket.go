//go:build linux

package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoSocket is returned by SocketOwner if the socket is no longer open in any process.
var ErrNoSocket = errors.New("no process has the socket of this connection open")

// SocketOwner asks the kernel which user owns the TCP socket at one end of a connection on this machine. socket is the
// socket's own address, and peer is the address of the other end. The call needs no privilege. It takes some 20 µs,
// regardless of the number of sockets (rule PMIX-18). If no process has the socket open, the error is ErrNoSocket. Any
// other error means that this kernel does not answer such requests.
func SocketOwner(socket, peer netip.AddrPort) (uid int, err error) {
	uid, err = askSocketOwner(socket, peer)
	if errors.Is(err, ErrNoSocket) { // the kernel may be about to add it to its table
		time.Sleep(time.Millisecond)
		uid, err = askSocketOwner(socket, peer)
	}
	return uid, err
}

// diagTimeout is the maximum time that SocketOwner waits for the kernel's reply.
const diagTimeout = time.Second

func askSocketOwner(socket, peer netip.AddrPort) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who owns a socket: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(diagTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who owns a socket: %w", err)
	}
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(fd, diagRequest(socket, peer), 0, kernel); err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who owns a socket: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who owns a socket: %w", err)
	}
	return parseDiagReply(answer[:n])
}

// These are sizes and codes of sock_diag(7). Each message is a netlink header followed by a request or a reply.
const (
	diagKind        = 20 // SOCK_DIAG_BY_FAMILY
	diagHeader      = 16
	diagRequestSize = diagHeader + 56
	diagReplySize   = diagHeader + 72
	diagEstablished = 1 // TCP_ESTABLISHED
	diagHalfClosed  = 8 // TCP_CLOSE_WAIT
)

// diagRequest returns a message that requests information about exactly one socket, in any state.
func diagRequest(socket, peer netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	if socket.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, 0, diagRequestSize)
	b = binary.NativeEndian.AppendUint32(b, diagRequestSize)
	b = binary.NativeEndian.AppendUint16(b, diagKind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, 1) // sequence number
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff)
	b = binary.BigEndian.AppendUint16(b, socket.Port())
	b = binary.BigEndian.AppendUint16(b, peer.Port())
	b = appendDiagAddr(b, socket.Addr())
	b = appendDiagAddr(b, peer.Addr())
	b = binary.NativeEndian.AppendUint32(b, 0)                       // any interface
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any cookie
}

// appendDiagAddr appends an address in 16 bytes. An IPv4 address takes the first four bytes.
func appendDiagAddr(b []byte, addr netip.Addr) []byte {
	var buf [16]byte
	copy(buf[:], addr.Unmap().AsSlice())
	return append(b, buf[:]...)
}

// parseDiagReply returns the user ID of the socket's owner from the kernel's reply b, or the error in b (netlink(7)).
func parseDiagReply(b []byte) (uid int, err error) {
	const kindAt, errnoAt, stateAt, uidAt, inodeAt = 4, 16, 17, 80, 84
	if len(b) < diagHeader+4 {
		return 0, errors.New("cannot ask the kernel who owns a socket: the reply is malformed")
	}
	switch kind := binary.NativeEndian.Uint16(b[kindAt:]); {
	case kind == unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b[errnoAt:])))
		if errno == unix.ENOENT {
			return 0, ErrNoSocket
		}
		return 0, fmt.Errorf("cannot ask the kernel who owns a socket: %w", errno)
	case kind != diagKind || len(b) < diagReplySize:
		return 0, errors.New("cannot ask the kernel who owns a socket: the reply is malformed")
	}
	open := b[stateAt] == diagEstablished || b[stateAt] == diagHalfClosed
	if !open || binary.NativeEndian.Uint32(b[inodeAt:]) == 0 {
		return 0, ErrNoSocket // the kernel shows uid 0 for a closed socket, as for root's
	}
	return int(binary.NativeEndian.Uint32(b[uidAt:])), nil
}
