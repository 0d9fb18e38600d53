/*
Package request makes a job.Request of a command line and of what may be known of the world
before any host is reached. It is pure but for the files that it opens by the world's own
function.

	option.Line ----.
	World ----------+--> Make --> job.Request, warnings
	allocation -----'      |
	                       +-- hosts.go       what -host, -hostfile and the allocation name
	                       +-- candidates.go  hosts or cluster nodes as candidates (placement.md 1)
	                       +-- rankfile.go    where each rank was told to go
	                       +-- layout.go      mapping, binding, hosts left out
	                       +-- environ.go     variables of the ranks
	                       +-- streams.go     where their streams come from and go to
	                       '-- queue.go, spawn.go

Two more ask what a request comes to without any host: Offline, and FromState for a cluster
that is in a file.
*/
package request

import (
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/config"
	"remshell/job"
)

// An Inputs is what a request is made from, beside its command line.
type Inputs struct {
	Job        job.ID // that the request is to have
	Environ    []string
	Local      Localhost
	Cluster    *config.Cluster // nil: there is no cluster file
	OpenFile   func(name string) (io.ReadCloser, error)
	Stat       func(name string) (fs.FileInfo, error)
	RunTool    func(name string, args ...string) (string, error) // a batch system's program; nil: none is run
	CheckTrust func(name string) error                           // why a file that was opened may not be obeyed as code; nil: it may

	Allocation *batch.Allocation // what a batch system gave, if its hosts are used; see Allocated
}

// lookupEnv is a variable; it may be defined and empty.
func (w Inputs) lookupEnv(name string) (value string, defined bool) {
	return job.LookupEnv(w.Environ, name)
}

// lookupUserEnv is env, without what a batch system has set on its own that means something else than if the user had set it.
func (w Inputs) lookupUserEnv(name string) (value string, defined bool) {
	if name == ompThreads && w.batchThreads() != "" {
		return "", false
	}
	return w.lookupEnv(name)
}

const ompThreads = "OMP_NUM_THREADS"

// batchThreads is the assignment of OMP_NUM_THREADS, if a batch system has made it: the CPUs of its slot, which is what all ranks
// have together here, and not the width of each. Empty: none has.
func (w Inputs) batchThreads() string {
	value, _ := w.lookupEnv(ompThreads)
	if n := batch.Threads(w.allocInputs()); n == 0 || value != strconv.Itoa(n) {
		return ""
	}
	return ompThreads + "=" + value
}

// A Localhost is this machine as a request must know it.
type Localhost struct {
	Names  []string            // its host names, the first its own word for itself
	Addrs  func() []netip.Addr // asked for only if a host is named by address
	Dir    string              // working directory, as the user calls it
	User   job.User
	DirErr error // why there is none, if it was removed or may not be looked at
}

// Matches reports whether a host expression means this machine (HOST-8).
func (l Localhost) Matches(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || slices.Contains(l.Addrs(), addr.Unmap())
	}
	return strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(l.Names, func(n string) bool { return strings.EqualFold(n, host) })
}

// ReadTexts reads files as a whole by opening them.
func ReadTexts(open func(string) (io.ReadCloser, error)) func(string) (string, error) {
	return func(name string) (string, error) {
		f, err := open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		return string(text), err
	}
}
