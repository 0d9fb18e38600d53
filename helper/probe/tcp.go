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

// SSHConnection is the connection by which sshd has let us in: "client port server port" in
// SSH_CONNECTION, as sshd(8) sets it.
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

// IsRetransmitting reports whether a table in the form of /proc/net/tcp shows segments
// of a connection that were repeated, or probes of a closed window that were sent,
// more than twice without any answer. Both counters fall back to 0 with the first
// acknowledgement (proc_net_tcp.txt: retrnsmt is icsk_retransmits, timeout is
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

// parseProcAddr reads ADDRESS:PORT of /proc/net/tcp: hexadecimal, the address as 32-bit
// words in the order of the machine's bytes, the port as a number.
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

// SocketOwner finds the user of a connection in a table in the form of /proc/net/tcp. It has
// one only while it is established and somebody has it open (TRUST-25): of one that was closed
// the kernel knows no user any more, and shows 0, as for root's.
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
