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
A linkWatch notices that the connection to mpiexec is dead.

If a cable is cut or mpiexec's machine loses power, the helper's connection does not end. A lack of replies is no
proof, because a stopped mpiexec (^Z) does not reply either. But the kernel of mpiexec's machine acknowledges TCP
segments even for a stopped process. So the helper asks its own kernel whether segments are acknowledged:

	helper --Ping--> sshd --TCP segment--> the kernel at the other end
	   '--- /proc/net/tcp: is our segment retransmitted without an acknowledgement? ---'

A helper that has a TCP connection to mpiexec watches that connection (System.Link). Otherwise it watches the connection
that sshd names in the variable SSH_CONNECTION. Other programs that start helpers set no such variable, and have to
notice a dead connection themselves (cli.md SIG-7).
*/
type linkWatch struct {
	root         fs.FS
	local        netip.AddrPort
	remote       netip.AddrPort
	maxSilence   time.Duration
	lastAnswered time.Time // when the watch last found all data acknowledged
}

// A Link is the pair of addresses of a TCP connection. The zero value means no connection.
type Link struct{ Local, Remote netip.AddrPort }

// LinkOf returns the addresses of a TCP connection. For any other connection it returns the zero Link.
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

// watchLink starts to watch the connection to mpiexec. If the connection has been dead for the duration silence,
// the session receives a linkDeadEvent. watchLink returns nil if there is no TCP connection to watch, or
// silence is not positive.
func watchLink(sys System, silence time.Duration, s *Session) *linkWatch {
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
					s.PostEvent(linkDeadEvent{silent.Round(time.Second)})
					return
				}
			}
		}
	}()
	return w
}

// sendHeartbeats sends a Ping to mpiexec at regular intervals as long as the session lasts. This is needed if a batch
// system's launcher carries the connection: without Pings, mpiexec could not notice a dead connection (rule RM-40).
func (s *Session) sendHeartbeats() {
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

// silentFor returns for how long the peer has left data unacknowledged. If unanswered is false, all data has now been
// acknowledged, and silentFor returns 0.
func (w *linkWatch) silentFor(unanswered bool, now time.Time) time.Duration {
	if !unanswered {
		w.lastAnswered = now
	}
	return now.Sub(w.lastAnswered)
}

// isRetransmitting reports whether the kernel is retransmitting segments of the watched connection.
func (w *linkWatch) isRetransmitting() bool {
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, err := fs.ReadFile(w.root, table)
		if err == nil && probe.IsRetransmitting(string(text), w.local, w.remote) {
			return true
		}
	}
	return false
}
