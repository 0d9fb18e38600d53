//go:build linux

package probe

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
)

// SSHConnection returns the two ends of the TCP connection on which sshd has accepted this login. They are in
// the environment variable SSH_CONNECTION, as "client port server port" (ssh(1)). ok is false if the variable
// is missing or invalid.
func SSHConnection(environ []string) (local, remote netip.AddrPort, ok bool) {
	f := strings.Fields(job.EnvValue(environ, "SSH_CONNECTION"))
	if len(f) != 4 {
		return local, remote, false
	}
	remote, errRemote := addrPort(f[0], f[1])
	local, errLocal := addrPort(f[2], f[3])
	return local, remote, errRemote == nil && errLocal == nil
}

func addrPort(addr, port string) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(a.Unmap().WithZone(""), uint16(p)), err
}

// IsRetransmitting reports whether the kernel has repeated data of a connection, or probes of a closed window, more
// than twice without receiving a reply. table has the form of /proc/net/tcp. A connection's two counters in it
// return to 0 at the first acknowledgment (proc_net_tcp.txt: retrnsmt is icsk_retransmits, timeout is
// icsk_probes_out).
func IsRetransmitting(table string, local, remote netip.AddrPort) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 9 {
			continue
		}
		if l, ok := parseProcAddr(f[1]); !ok || l != local {
			continue
		}
		if r, ok := parseProcAddr(f[2]); !ok || r != remote {
			continue
		}
		repeats, _ := strconv.ParseUint(f[6], 16, 32)
		probes, _ := strconv.ParseUint(f[8], 10, 32)
		return repeats > 2 || probes > 2
	}
	return false
}

// parseProcAddr parses an ADDRESS:PORT in the form of /proc/net/tcp. It returns false if text is not of this form. Both
// parts are hexadecimal. The address consists of 32-bit words in the machine's byte order.
func parseProcAddr(text string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(addr)
	p, perr := strconv.ParseUint(port, 16, 16)
	if err != nil || perr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for word := range slices.Chunk(raw, 4) {
			slices.Reverse(word)
		}
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), ok
}

// SocketOwner returns the user who owns the socket that connects local to remote. table has the form of /proc/net/tcp.
// known is false unless the connection is established and a process has it open (rule TRUST-25). For a closed
// connection, the kernel shows uid 0, as if root owned it.
func SocketOwner(table string, local, remote netip.AddrPort) (uid int, known bool) {
	const established, uidCell, inodeCell = "01", 7, 9
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) <= inodeCell {
			continue
		}
		if l, ok := parseProcAddr(f[1]); !ok || l != local {
			continue
		}
		if r, ok := parseProcAddr(f[2]); !ok || r != remote {
			continue
		}
		uid, err := strconv.Atoi(f[uidCell])
		return uid, err == nil && f[3] == established && f[inodeCell] != "0"
	}
	return 0, false
}
