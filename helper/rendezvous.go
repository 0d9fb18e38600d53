//go:build linux

package helper

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/job"
)

// openRendezvous finds the address of the interface that -iface names. For PyTorch, it also reserves a port on the node
// of rank 0, where the ranks then connect to each other. It returns the reason if that fails.
func (g *Group) openRendezvous() (refused *rank.Error) {
	m := g.Prepare
	if m.Node.Interface != "" {
		if g.address, refused = ifaceAddress(m.Node.Interface); refused != nil {
			return refused
		}
	}
	first := slices.ContainsFunc(m.Ranks, func(r job.RankPlan) bool { return r.Rank == 0 })
	if !first || !slices.Contains(m.Process.Compat, "torch") {
		return nil
	}
	host := g.address
	switch {
	case host == "" && m.Group.NodeCount > 1:
		host = m.Node.Name
	case host == "":
		host = "127.0.0.1"
	}
	reserved, port, err := reservePort(host)
	if err != nil {
		return rank.InternalError(fmt.Sprintf("cannot reserve the port at which rank 0 listens for the other ranks: %v", err), "check ulimit -n on that host")
	}
	g.rendezvousSocket, g.rendezvous = reserved, net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// reservePort reserves and returns a free port on host, on which a rank listens later. It binds a socket but does not
// listen, so no other process can get the port meanwhile (rule TRUST-26). If host is not an address of this node, for
// example because only other nodes use that address, the port is reserved on all addresses. The caller must close the
// file to free the port.
func reservePort(host string) (*os.File, int, error) {
	family, own, all := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{}), unix.Sockaddr(&unix.SockaddrInet4{})
	if at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, "0")); err == nil {
		if v4 := at.IP.To4(); v4 != nil {
			own = &unix.SockaddrInet4{Addr: [4]byte(v4)}
		} else if len(at.IP) == net.IPv6len {
			family, own, all = unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte(at.IP)}, &unix.SockaddrInet6{}
		}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	reserved := os.NewFile(uintptr(fd), "rendezvous")
	if err = unix.Bind(fd, own); err == unix.EADDRNOTAVAIL {
		err = unix.Bind(fd, all)
	}
	if err != nil {
		reserved.Close()
		return nil, 0, err
	}
	bound, err := unix.Getsockname(fd)
	return reserved, portOf(bound), err
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// freeRendezvous frees the reserved port, if there is one.
func (g *Group) freeRendezvous() {
	if g.rendezvousSocket != nil {
		g.rendezvousSocket.Close()
		g.rendezvousSocket = nil
	}
}

// ifaceAddress returns the address of an interface of this node, given by its name or by a prefix that contains the
// address. It prefers IPv4. If there is none, the error lists the interfaces.
func ifaceAddress(iface string) (string, *rank.Error) {
	prefix, noPrefix := netip.ParsePrefix(iface)
	var names []string
	found := netip.Addr{}
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		names = append(names, i.Name)
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			addr := p.Addr().Unmap()
			mine := i.Name == iface && !addr.IsLinkLocalUnicast() || noPrefix == nil && prefix.Contains(addr)
			if mine && (!found.IsValid() || found.Is6() && addr.Is4()) {
				found = addr
			}
		}
	}
	if found.IsValid() {
		return found.String(), nil
	}
	return "", rank.InternalError(fmt.Sprintf("-iface %s: no network interface has this name or address", iface),
		"the interfaces are "+strings.Join(names, ", "))
}
