//go:build linux

package helper

import (
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/wire"
)

/*
A half-open link, whose cable was cut or whose launcher lost its power, ends no
stream, and a stopped launcher (^Z) answers nothing that we might ask. The kernel
at the other end knows the difference: it acknowledges TCP segments also for a
stopped process. So the helper does not ask mpiexec, it asks its own kernel:

	helper --Ping--> sshd --TCP segment--> the kernel at the other end
	   '--- /proc/net/tcp: is our segment being repeated without answer? ---'

Which connection is ours, sshd has told in SSH_CONNECTION. With another way of
starting us there is none, and that way has to keep the link (cli.md SIG-7).
*/
type watch struct {
	root    fs.FS
	local   netip.AddrPort
	remote  netip.AddrPort
	silence time.Duration
	heard   time.Time // when the other end was last known to answer
}

// watchLink watches the link of a session for as long as the session lasts. It
// returns nil when there is nothing to watch.
func watchLink(sys System, silence time.Duration, s *session) *watch {
	local, remote, ok := sshConnection(value(sys.Environ, "SSH_CONNECTION"))
	if !ok || silence <= 0 {
		return nil
	}
	w := &watch{root: sys.Root, local: local, remote: remote, silence: silence, heard: time.Now()}
	go func() {
		tick := time.NewTicker(max(silence/3, 100*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case now := <-tick.C:
				s.conn.Send(&wire.Ping{})
				if silent := w.judge(w.look(), now); silent >= silence {
					s.tell(linkDead{silent.Round(time.Second)})
					return
				}
			}
		}
	}()
	return w
}

// judge returns how long the other end has been silent, as far as is known.
func (w *watch) judge(unanswered bool, now time.Time) time.Duration {
	if !unanswered {
		w.heard = now
	}
	return now.Sub(w.heard)
}

// look reports whether the kernel is repeating segments of our connection.
func (w *watch) look() bool {
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, err := fs.ReadFile(w.root, table)
		if err == nil && unanswered(string(text), w.local, w.remote) {
			return true
		}
	}
	return false
}

// sshConnection reads "client port server port", as sshd(8) sets it.
func sshConnection(text string) (local, remote netip.AddrPort, ok bool) {
	f := strings.Fields(text)
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

// unanswered reports whether a table in the form of /proc/net/tcp shows segments
// of a connection that were repeated, or probes of a closed window that were sent,
// more than twice without any answer. Both counters fall back to 0 with the first
// acknowledgement (proc_net_tcp.txt: retrnsmt is icsk_retransmits, timeout is
// icsk_probes_out).
func unanswered(table string, local, remote netip.AddrPort) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 9 {
			continue
		}
		if l, ok := procAddr(f[1]); !ok || l != local {
			continue
		}
		if r, ok := procAddr(f[2]); !ok || r != remote {
			continue
		}
		repeats, _ := strconv.ParseUint(f[6], 16, 32)
		probes, _ := strconv.ParseUint(f[8], 10, 32)
		return repeats > 2 || probes > 2
	}
	return false
}

// procAddr reads ADDRESS:PORT of /proc/net/tcp: hexadecimal, the address as 32-bit
// words in the order of the machine's bytes, the port as a number.
func procAddr(text string) (netip.AddrPort, bool) {
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
