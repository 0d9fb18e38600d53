package cli

import (
	"cmp"
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
	here := Here{User: job.User{Name: userName(sys), UID: os.Getuid(), GID: os.Getgid()}}
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

// called gives this machine another name (-localhost).
func (h Here) called(name string) Here {
	if name != "" {
		h.Names = append([]string{name}, h.Names...)
	}
	return h
}

// userName is what the user is called: the environment speaks first, as a static program
// cannot ask LDAP (see doc/design.md).
func userName(sys System) string {
	name := cmp.Or(sys.getenv("USER"), sys.getenv("LOGNAME"))
	if name == "" && sys.FS != nil {
		name = passwdEntry(sys, os.Getuid())[0]
	}
	return name
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
