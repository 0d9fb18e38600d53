//go:build linux

package helper

import (
	"io/fs"
	"net"
	"net/netip"
	"time"

	"remshell/helper/probe"
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
type linkWatch struct {
	root         fs.FS
	local        netip.AddrPort
	remote       netip.AddrPort
	maxSilence   time.Duration
	lastAnswered time.Time // when the other end was last known to answer
}

// A Link is the two ends of a connection; the zero value: none.
type Link struct{ Local, Remote netip.AddrPort }

// LinkOf is that of a TCP connection.
func LinkOf(conn net.Conn) Link {
	local, _ := conn.LocalAddr().(*net.TCPAddr)
	remote, _ := conn.RemoteAddr().(*net.TCPAddr)
	if local == nil || remote == nil {
		return Link{}
	}
	plain := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	return Link{plain(local.AddrPort()), plain(remote.AddrPort())}
}

func (l Link) isKnown() bool { return l.Local.IsValid() && l.Remote.IsValid() }

// watchLink watches the link of a session for as long as the session lasts. It
// returns nil when there is nothing to watch.
func watchLink(sys System, silence time.Duration, s *session) *linkWatch {
	link := sys.Link
	if !link.isKnown() {
		link.Local, link.Remote, _ = probe.SSHConnection(sys.Environ)
	}
	if !link.isKnown() || silence <= 0 {
		return nil
	}
	w := &linkWatch{root: sys.Root, local: link.Local, remote: link.Remote, maxSilence: silence, lastAnswered: time.Now()}
	go func() {
		tick := time.NewTicker(max(silence/3, 100*time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				return
			case now := <-tick.C:
				s.conn.Send(&wire.Ping{})
				if silent := w.silentFor(w.isRetransmitting(), now); silent >= silence {
					s.postEvent(linkDeadEvent{silent.Round(time.Second)})
					return
				}
			}
		}
	}()
	return w
}

// sendHeartbeats gives mpiexec signs of life as long as the session lasts. Where a batch system's starter carries
// the stream nobody else would notice that it leads nowhere (RM-40).
func (s *session) sendHeartbeats() {
	tick := time.NewTicker(wire.HeartbeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			s.conn.Send(&wire.Ping{})
		}
	}
}

// silentFor returns how long the other end has been silent, as far as is known.
func (w *linkWatch) silentFor(unanswered bool, now time.Time) time.Duration {
	if !unanswered {
		w.lastAnswered = now
	}
	return now.Sub(w.lastAnswered)
}

// isRetransmitting reports whether the kernel is repeating segments of our connection.
func (w *linkWatch) isRetransmitting() bool {
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, err := fs.ReadFile(w.root, table)
		if err == nil && probe.IsRetransmitting(string(text), w.local, w.remote) {
			return true
		}
	}
	return false
}
