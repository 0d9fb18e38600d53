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

// ErrNoSocket says that the kernel knows of no socket that is open there.
var ErrNoSocket = errors.New("no process has such a socket open")

// SocketOwner asks the kernel which user has the TCP socket at one end of a connection of this
// machine, by its own address and that of the other end. It needs no privilege and costs some
// 20 µs, however many sockets there are (PMIX-18). A socket of which only the kernel knows any
// more, since its process has closed it, is ErrNoSocket; any other error says that one may not
// ask here.
func SocketOwner(socket, peer netip.AddrPort) (uid int, err error) {
	uid, err = askSocketOwner(socket, peer)
	if errors.Is(err, ErrNoSocket) { // it may be on its way into the kernel's table
		time.Sleep(time.Millisecond)
		uid, err = askSocketOwner(socket, peer)
	}
	return uid, err
}

// diagTimeout is how long the kernel may take to answer.
const diagTimeout = time.Second

func askSocketOwner(socket, peer netip.AddrPort) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	defer unix.Close(fd)
	patience := unix.NsecToTimeval(diagTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(fd, diagRequest(socket, peer), 0, kernel); err != nil {
		return 0, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	return diagAnswer(answer[:n])
}

// Layout of sock_diag(7): a header of netlink, and a request or an answer behind it.
const (
	diagKind        = 20 // SOCK_DIAG_BY_FAMILY
	diagHeader      = 16
	diagRequestSize = diagHeader + 56
	diagAnswerSize  = diagHeader + 72
	diagEstablished = 1 // TCP_ESTABLISHED
	diagHalfClosed  = 8 // TCP_CLOSE_WAIT
)

// diagRequest asks for exactly one socket, in any state.
func diagRequest(socket, peer netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	if socket.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, 0, diagRequestSize)
	b = binary.NativeEndian.AppendUint32(b, diagRequestSize)
	b = binary.NativeEndian.AppendUint16(b, diagKind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, 1) // number of the question
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff)
	b = binary.BigEndian.AppendUint16(b, socket.Port())
	b = binary.BigEndian.AppendUint16(b, peer.Port())
	b = appendDiagAddr(b, socket.Addr())
	b = appendDiagAddr(b, peer.Addr())
	b = binary.NativeEndian.AppendUint32(b, 0)                       // any interface
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // any cookie
}

// appendDiagAddr adds an address in 16 bytes, those of IPv4 in front.
func appendDiagAddr(b []byte, addr netip.Addr) []byte {
	var room [16]byte
	copy(room[:], addr.Unmap().AsSlice())
	return append(b, room[:]...)
}

// diagAnswer reads the owner from an answer, or the error of netlink(7) that it is.
func diagAnswer(b []byte) (uid int, err error) {
	const kindAt, errnoAt, stateAt, uidAt, inodeAt = 4, 16, 17, 80, 84
	if len(b) < diagHeader+4 {
		return 0, errors.New("ask the kernel for sockets: an answer that is none")
	}
	switch kind := binary.NativeEndian.Uint16(b[kindAt:]); {
	case kind == unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b[errnoAt:])))
		if errno == unix.ENOENT {
			return 0, ErrNoSocket
		}
		return 0, fmt.Errorf("ask the kernel for sockets: %w", errno)
	case kind != diagKind || len(b) < diagAnswerSize:
		return 0, errors.New("ask the kernel for sockets: an answer that is none")
	}
	open := b[stateAt] == diagEstablished || b[stateAt] == diagHalfClosed
	if !open || binary.NativeEndian.Uint32(b[inodeAt:]) == 0 {
		return 0, ErrNoSocket // of one that was closed it shows 0, as for root's
	}
	return int(binary.NativeEndian.Uint32(b[uidAt:])), nil
}
