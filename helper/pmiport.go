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
A pmiPort accepts the PMI connections of ranks that use PMI_PORT (-pmi-port). PMI_PORT is for ranks whose debugger
or wrapper would lose an inherited descriptor. The pmiPort listens only on the node's loopback address. A connection
must come from a process of our own user, which must also know the PMI_ID of a rank:

	rank --- connect 127.0.0.1:PORT ---> pmiPort --- which user's process? --> Listener
	                                        kernel: /proc/net/tcp, the uid    whose PMI_ID?
*/
type pmiPort struct {
	listener pmiserver.Listener
	tcp      net.Listener
	root     fs.FS
	warn     func(text string)

	mu    sync.Mutex // guards ranks
	ranks map[portRank]*Rank
}

// A portRank identifies a rank in pmiPort.ranks by its group and number, because ranks of several groups may
// have the same number.
type portRank struct {
	server *pmiserver.Server
	rank   int
}

func (p *pmiPort) addRank(server *pmiserver.Server, r *Rank) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranks[portRank{server, r.Plan.Rank}] = r
}

func (p *pmiPort) findRank(server *pmiserver.Server, rank int) *Rank {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranks[portRank{server, rank}]
}

// removeRank removes an ended rank. Processes that the rank has left behind may continue to use its
// connection.
func (p *pmiPort) removeRank(server *pmiserver.Server, rank int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ranks, portRank{server, rank})
}

func openPMIPort(root fs.FS, warn func(string)) (*pmiPort, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &pmiPort{tcp: l, root: root, warn: warn, ranks: make(map[portRank]*Rank)}, nil
}

// acceptLoop accepts connections until the port is closed. It refuses connections from other users.
func (p *pmiPort) acceptLoop() {
	for {
		conn, err := p.tcp.Accept()
		if err != nil {
			return
		}
		if !p.isOwnUser(conn) {
			conn.Close()
			p.warn("refused a connection to the PMI port: it came from a process of another user")
			continue
		}
		pending := p.listener.AddPending(conn) // not in the goroutine: connections keep the order in which they came
		go pending.Serve(context.Background())
	}
}

// isOwnUser reports whether the process at the other end of conn belongs to the helper's user.
func (p *pmiPort) isOwnUser(conn net.Conn) bool {
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	remote, errRemote := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || errRemote != nil {
		return false
	}
	table, err := fs.ReadFile(p.root, "proc/net/tcp")
	if err != nil {
		return false
	}
	uid, known := probe.SocketOwner(string(table), remote, local)
	return known && (uid == os.Geteuid() || uid == os.Getuid())
}

// expectByPort makes the port accept connections from the ranks of a group. It opens the port if necessary, and returns
// the reason if that fails.
func (s *Session) expectByPort(g *Group) *rank.Error {
	if s.port == nil {
		p, err := openPMIPort(s.sys.Root, func(text string) { s.log.warn("%s", text) })
		if err != nil {
			return rank.InternalError(fmt.Sprintf("cannot open a port for PMI: %v", err), "leave out -pmi-port")
		}
		p.listener.Connected = func(server *pmiserver.Server, rank int) {
			if r := p.findRank(server, rank); r != nil {
				r.tcp.markConnected()
			}
		}
		p.listener.Disconnected = func(server *pmiserver.Server, rank int, err error) {
			if r := p.findRank(server, rank); r != nil {
				s.reportPMIEnd(r, err)
				r.tcp.markDisconnected()
			}
		}
		s.port = p
		go p.acceptLoop()
	}
	for _, r := range g.ranks {
		r.tcp = newTCPSession()
		s.port.addRank(g.pmi, r)
		r.pmiID = s.port.listener.ExpectRank(g.pmi, r.Plan.Rank)
	}
	return nil
}

// stopExpectingByPort makes the port refuse further connections from the ranks of a group.
func (s *Session) stopExpectingByPort(g *Group) {
	if s.port != nil {
		s.port.listener.ForgetServer(g.pmi)
	}
}
