package cli

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"remshell/job"
)

// thisMachine finds out under which names and addresses hosts of a list may mean
// this machine, without asking any name server.
func thisMachine(sys System) (Here, error) {
	dir, err := sys.Getwd()
	if err != nil {
		return Here{}, fmt.Errorf("working directory: %w", err)
	}
	here := Here{Dir: dir, User: job.User{UID: os.Getuid(), GID: os.Getgid()}}
	here.User.GIDs, _ = os.Getgroups()
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	here.Names = []string{name}
	if short, _, ok := strings.Cut(name, "."); ok {
		here.Names = append(here.Names, short)
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			here.Addrs = append(here.Addrs, prefix.Addr().Unmap())
		}
	}
	return here, nil
}
