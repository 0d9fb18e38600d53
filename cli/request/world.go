/*
Package request builds a job.Request from a command line and from what is known before any connection to a host. Its
only side effects are those of the functions in Inputs, which open files and run programs.

	option.Line ----.
	Inputs ---------+--> Make --> job.Request, warnings
	allocation -----'      |
	                       +-- hosts.go       hosts of -host, -hostfile and the allocation
	                       +-- candidates.go  hosts or cluster nodes as candidates (placement.md 1)
	                       +-- rankfile.go    placement of each rank, if the user gives it
	                       +-- layout.go      mapping, binding, hosts left out
	                       +-- environ.go     variables of the ranks
	                       +-- streams.go     standard input and output of the ranks
	                       '-- queue.go, spawn.go

Two functions plan a request without connecting to hosts: PlanOffline, and PlanFromState for a cluster
described in a file.
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
	"remshell/limits"
)

// Inputs contains all inputs of a request other than its command line.
type Inputs struct {
	Job        job.ID // ID of the new job
	Environ    []string
	Local      Localhost
	Cluster    *config.Cluster // nil: there is no cluster file
	OpenFile   func(name string) (io.ReadCloser, error)
	Stat       func(name string) (fs.FileInfo, error)
	RunTool    func(name string, args ...string) (string, error) // runs a program of a batch system; nil: none is run
	CheckTrust func(name string) error                           // returns why a file must not decide which programs run; nil if it may

	Limits       limits.Map     // of the job, that features add
	LimitOrigins limits.Origins // where each was set

	Allocation *batch.Allocation // hosts given by a batch system, if they are used; see UseAllocation
	NeedsEnd   string            // option of a feature that needs to know when the job ends; empty: none
}

// lookupEnv returns the value of an environment variable. defined is true if the variable is set, even to an
// empty value.
func (w Inputs) lookupEnv(name string) (value string, defined bool) {
	return job.LookupEnv(w.Environ, name)
}

// lookupUserEnv does the same as lookupEnv, but ignores OMP_NUM_THREADS if the batch system, and not the
// user, has set it.
func (w Inputs) lookupUserEnv(name string) (value string, defined bool) {
	if name == ompThreads && w.batchThreads() != "" {
		return "", false
	}
	return w.lookupEnv(name)
}

const ompThreads = "OMP_NUM_THREADS"

// batchThreads returns the assignment of OMP_NUM_THREADS if the batch system has set the variable, and "" otherwise.
// That value is the number of CPUs of a slot that all ranks share, and not the number for each rank.
func (w Inputs) batchThreads() string {
	value, _ := w.lookupEnv(ompThreads)
	if n := batch.Threads(w.allocInputs()); n == 0 || value != strconv.Itoa(n) {
		return ""
	}
	return ompThreads + "=" + value
}

// A Localhost contains the names and addresses of this machine, and the user and directory of this process.
type Localhost struct {
	Names  []string            // its host names; the first is its own name
	Addrs  func() []netip.Addr // called only if a host is named by address
	Dir    string              // working directory, with the user's spelling
	User   job.User
	DirErr error // why Dir cannot be used: removed, or no permission; else nil
}

// Matches reports whether host is a name or address of this machine (rule HOST-8).
func (l Localhost) Matches(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback() || slices.Contains(l.Addrs(), addr.Unmap())
	}
	return strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(l.Names, func(n string) bool { return strings.EqualFold(n, host) })
}

// ReadTexts returns a function that opens a file with the function open and reads all of it.
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
