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

// newInputs returns the inputs from which a request is built, except the cluster file, the job ID and this machine.
func newInputs(sys System) request.Inputs {
	files := newUserFiles(sys)
	return request.Inputs{Environ: sys.Environ, OpenFile: openCached(files.open), CheckTrust: files.checkTrust, Stat: os.Stat, RunTool: runBatchProgram}
}

// findLocalhost returns the names and addresses that denote this machine in a host list. It also returns the user and
// the working directory of this process. It does not query a name server. If the working directory has been removed,
// DirErr is set.
func findLocalhost(sys System) request.Localhost {
	local := request.Localhost{User: job.User{Name: userName(sys), UID: os.Getuid(), GID: os.Getgid()}}
	local.User.GIDs, _ = os.Getgroups()
	local.Dir, local.DirErr = sys.Getwd()
	var call *os.SyscallError
	if errors.As(local.DirErr, &call) {
		local.DirErr = call.Err // without the name of the system call
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	local.Names = []string{name}
	if short, _, ok := strings.Cut(name, "."); ok {
		local.Names = append(local.Names, short)
	}
	local.Addrs = sync.OnceValue(interfaceAddrs)
	return local
}

// withName returns local with name as the first name of this machine. name is the value of -localhost; if it
// is empty, nothing changes.
func withName(name string, local request.Localhost) request.Localhost {
	if name != "" {
		local.Names = append([]string{name}, local.Names...)
	}
	return local
}

// SetPath sets a default PATH for this process if it has none (env -i), so that it finds the programs that it starts.
// It must be called after the environment for ranks has been read. Otherwise the ranks would get this default instead
// of the PATH of their node.
func SetPath() {
	if _, defined := os.LookupEnv("PATH"); !defined {
		os.Setenv("PATH", job.DefaultPath)
	}
}

// userName returns the user's name. It takes the value of USER or LOGNAME if one is set, because that is
// fast. Otherwise it is the name of the account or, if there is none, the user ID.
func userName(sys System) string {
	name := cmp.Or(sys.getenv("USER"), sys.getenv("LOGNAME"))
	if name != "" || sys.FS == nil {
		return name
	}
	return cmp.Or(ownAccount(sys).Name, strconv.Itoa(os.Getuid()))
}

// interfaceAddrs returns the addresses of this machine's network interfaces.
func interfaceAddrs() (addrs []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return addrs
}

// newJobID returns a new job ID that no other mpiexec ever uses. It is short, because each PMI request
// contains it in the name of the key-value space (pmi-wire.md section 5).
func newJobID(now time.Time) job.ID {
	random := make([]byte, 4)
	rand.Read(random)
	return job.ID(fmt.Sprintf("%x-%d-%s", now.Unix(), os.Getpid(), hex.EncodeToString(random)))
}
