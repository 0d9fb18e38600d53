package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"remshell/cli/request"
	"remshell/job"
)

// newInputs is what a request may know, beside this machine and its cluster.
func newInputs(sys System) request.Inputs {
	files := newUserFiles(sys)
	return request.Inputs{Environ: sys.Environ, OpenFile: openCached(files.open), CheckTrust: files.checkTrust, Stat: os.Stat, RunTool: runBatchProgram}
}

// findLocalhost finds out under which names and addresses hosts of a list may mean
// this machine, without asking any name server. The working directory may be gone.
func findLocalhost(sys System) request.Localhost {
	here := request.Localhost{User: job.User{Name: userName(sys), UID: os.Getuid(), GID: os.Getgid()}}
	here.User.GIDs, _ = os.Getgroups()
	here.Dir, here.DirErr = sys.Getwd()
	var call *os.SyscallError
	if errors.As(here.DirErr, &call) {
		here.DirErr = call.Err // the name of the call tells nobody anything
	}
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

// withName gives this machine one more name (-localhost).
func withName(name string, here request.Localhost) request.Localhost {
	if name != "" {
		here.Names = append([]string{name}, here.Names...)
	}
	return here
}

// SetPath gives this process a PATH if it has none (env -i), by which it finds the programs that it starts. Call it after the
// environment of the ranks was read: their nodes may have a PATH.
func SetPath() {
	if _, defined := os.LookupEnv("PATH"); !defined {
		os.Setenv("PATH", job.DefaultPath)
	}
}

// userName is what the user is called: by the environment, which costs nothing to ask, or else by his account. A user whom nothing names
// is called by the user ID.
func userName(sys System) string {
	name := cmp.Or(sys.getenv("USER"), sys.getenv("LOGNAME"))
	if name != "" || sys.FS == nil {
		return name
	}
	return cmp.Or(ownAccount(sys).Name, strconv.Itoa(os.Getuid()))
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

// newJobID is unique over launchers and time; it is short, since it names the key-
// value space in every line of PMI (pmi-wire.md section 5).
func newJobID(now time.Time) job.ID {
	random := make([]byte, 4)
	rand.Read(random)
	return job.ID(fmt.Sprintf("%x-%d-%s", now.Unix(), os.Getpid(), hex.EncodeToString(random)))
}
