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

	"remshell/job"
)

// compatible lists what other launchers would tell a rank of its place (cli.md section 8,
// --env-compat). Libraries guess by them who started them, so they are set only on demand.
func (p place) compatible() (vars []string) {
	tell := func(name string, value int) { vars = append(vars, name+"="+strconv.Itoa(value)) }
	for _, launcher := range p.compat {
		switch launcher {
		case "torch":
			tell("RANK", p.rank)
			tell("WORLD_SIZE", p.size)
			tell("LOCAL_RANK", p.local)
			tell("LOCAL_WORLD_SIZE", p.locals)
			tell("NODE_RANK", p.node)
			if host, port, err := net.SplitHostPort(p.meet); err == nil {
				vars = append(vars, "MASTER_ADDR="+host, "MASTER_PORT="+port)
			}
		case "ompi":
			tell("OMPI_COMM_WORLD_RANK", p.rank)
			tell("OMPI_COMM_WORLD_SIZE", p.size)
			tell("OMPI_COMM_WORLD_LOCAL_RANK", p.local)
			tell("OMPI_COMM_WORLD_LOCAL_SIZE", p.locals)
			tell("OMPI_COMM_WORLD_NODE_RANK", p.local) // among ranks of the node: so in Open MPI
		case "slurm":
			tell("SLURM_PROCID", p.rank)
			tell("SLURM_NTASKS", p.size)
			tell("SLURM_LOCALID", p.local)
			tell("SLURM_NODEID", p.node)
		case "mvapich":
			tell("MV2_COMM_WORLD_RANK", p.rank)
			tell("MV2_COMM_WORLD_SIZE", p.size)
			tell("MV2_COMM_WORLD_LOCAL_RANK", p.local)
			tell("MV2_COMM_WORLD_LOCAL_SIZE", p.locals)
		}
	}
	return vars
}

// meeting finds the address that -iface means, and, where rank 0 is to be, a place at
// which torch's ranks can meet: its port stays taken until the ranks start.
func (g *group) meeting() (refused *startError) {
	m := g.prepare
	if m.Node.Iface != "" {
		if g.address, refused = ifaceAddress(m.Node.Iface); refused != nil {
			return refused
		}
	}
	first := slices.ContainsFunc(m.Ranks, func(r job.RankPlan) bool { return r.Rank == 0 })
	if !first || !slices.Contains(m.Process.Compat, "torch") {
		return nil
	}
	host := g.address
	switch {
	case host == "" && m.Group.Nodes > 1:
		host = m.Node.Name
	case host == "":
		host = "127.0.0.1"
	}
	berth, port, err := reserve(host)
	if err != nil {
		return &startError{exitInternal, fmt.Sprintf("no port at which ranks could meet: %v", err), "see ulimit -n there"}
	}
	g.berth, g.meet = berth, net.JoinHostPort(host, strconv.Itoa(port))
	return nil
}

// reserve takes a free port of an address of this node, for who listens there later. The
// socket is bound and never listens itself, so nobody gets in meanwhile (TRUST-26). An
// address under which only others know the node has a port of all.
func reserve(host string) (*os.File, int, error) {
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
	berth := os.NewFile(uintptr(fd), "berth")
	if err = unix.Bind(fd, own); err == unix.EADDRNOTAVAIL {
		err = unix.Bind(fd, all)
	}
	if err != nil {
		berth.Close()
		return nil, 0, err
	}
	bound, err := unix.Getsockname(fd)
	return berth, portOf(bound), err
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

// leaveBerth frees the port.
func (g *group) leaveBerth() {
	if g.berth != nil {
		g.berth.Close()
		g.berth = nil
	}
}

// ifaceAddress finds the address of an interface of this node, given by name, or by a
// prefix in which the address is. IPv4 comes first.
func ifaceAddress(wanted string) (string, *startError) {
	prefix, noPrefix := netip.ParsePrefix(wanted)
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
			mine := i.Name == wanted && !addr.IsLinkLocalUnicast() || noPrefix == nil && prefix.Contains(addr)
			if mine && (!found.IsValid() || found.Is6() && addr.Is4()) {
				found = addr
			}
		}
	}
	if found.IsValid() {
		return found.String(), nil
	}
	return "", &startError{exitInternal, fmt.Sprintf("-iface %s: no interface has such a name or address", wanted),
		"there are " + strings.Join(names, ", ")}
}
