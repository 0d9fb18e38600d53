package cli

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"remshell/job"
)

// thisMachine finds out under which names and addresses hosts of a list may mean
// this machine, without asking any name server. The working directory may be gone.
func thisMachine(sys System) Here {
	here := Here{User: job.User{UID: os.Getuid(), GID: os.Getgid()}}
	here.User.GIDs, _ = os.Getgroups()
	here.Dir, here.NoDir = sys.Getwd()
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	here.Names = []string{name}
	if short, _, ok := strings.Cut(name, "."); ok {
		here.Names = append(here.Names, short)
	}
	here.Addrs = sync.OnceValue(interfaceAddrs)
	return here
}

func interfaceAddrs() (addrs []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return addrs
}
