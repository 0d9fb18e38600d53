//go:build linux

package helper

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"

	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/pmiserver"
)

/*
A port is where ranks come in that were given PMI_PORT instead of a descriptor
(-pmi-port): those that a debugger or a wrapper would lose it of. It is open on the
loopback of the node alone, and there only to processes of our own user, who must know
the PMI_ID of a rank besides:

	rank --- connect 127.0.0.1:PORT ---> port --- whose is the other end? --> Listener
	                                        kernel: /proc/net/tcp, the uid    whose PMI_ID?
*/
type port struct {
	listener pmiserver.Listener
	socket   net.Listener
	root     fs.FS
	warn     func(text string)

	mu    sync.Mutex // guards ranks
	ranks map[portRank]*process
}

// A portRank is a rank as the listener knows it.
type portRank struct {
	server *pmiserver.Server
	rank   int
}

func (p *port) know(server *pmiserver.Server, r *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranks[portRank{server, r.plan.Rank}] = r
}

func (p *port) who(server *pmiserver.Server, rank int) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranks[portRank{server, rank}]
}

// forget drops a rank that is over. What is left of it may keep its connection.
func (p *port) forget(server *pmiserver.Server, rank int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ranks, portRank{server, rank})
}

func openPort(root fs.FS, warn func(string)) (*port, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &port{socket: l, root: root, warn: warn, ranks: make(map[portRank]*process)}, nil
}

// run lets in who comes, until the port is closed.
func (p *port) run() {
	for {
		conn, err := p.socket.Accept()
		if err != nil {
			return
		}
		if !p.ours(conn) {
			conn.Close()
			p.warn("somebody else's process wanted to speak PMI to us: refused")
			continue
		}
		newcomer := p.listener.Take(conn) // in the order in which they come
		go newcomer.Serve(context.Background())
	}
}

// ours reports whether the process at the other end is of our user.
func (p *port) ours(conn net.Conn) bool {
	here, err := netip.ParseAddrPort(conn.LocalAddr().String())
	there, errThere := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || errThere != nil {
		return false
	}
	table, err := fs.ReadFile(p.root, "proc/net/tcp")
	if err != nil {
		return false
	}
	uid, known := probe.SocketOwner(string(table), there, here)
	return known && (uid == os.Geteuid() || uid == os.Getuid())
}

// expect lets the ranks of a group come in by the port, which it opens if need be.
func (s *session) expect(g *group) *rank.Error {
	if s.port == nil {
		p, err := openPort(s.sys.Root, func(text string) { s.log.warn("%s", text) })
		if err != nil {
			return rank.Internal(fmt.Sprintf("no port for PMI: %v", err), "leave out -pmi-port")
		}
		p.listener.Begun = func(server *pmiserver.Server, rank int) {
			if r := p.who(server, rank); r != nil {
				r.tcp.begin()
			}
		}
		p.listener.Ended = func(server *pmiserver.Server, rank int, err error) {
			if r := p.who(server, rank); r != nil {
				s.hungUp(r, err)
				r.tcp.end()
			}
		}
		s.port = p
		go p.run()
	}
	for _, r := range g.ranks {
		r.tcp = newTCPSession()
		s.port.know(g.pmi, r)
		r.id = s.port.listener.Expect(g.pmi, r.plan.Rank)
	}
	return nil
}

// unexpect lets none of a group in any more that is over.
func (s *session) unexpect(g *group) {
	if s.port != nil {
		s.port.listener.Forget(g.pmi)
	}
}
