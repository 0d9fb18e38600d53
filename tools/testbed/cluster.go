//go:build linux

// Package testbed creates clusters of test hosts on this machine, for tests and for use by hand.
//
// A test cluster has a head, where launchers run, and hosts n1 to nN. An SSH client on the head connects to the
// hosts by name, with the key in the head's home:
//
//	         head                              n1 ... nN
//	+--------------------+           +---------------------------+
//	| mpiexec, ssh, ...  |   br0     | sshd, own host key        |
//	| ~/.ssh: key, known |===========| own address, host name,   |
//	| hosts, config      |           | /tmp /run /dev/shm $HOME  |
//	+--------------------+           +---------------------------+
//
// There are three kinds of test clusters:
//
//   - Namespaces needs root. Each host has its own network, UTS, PID, IPC and mount namespaces;
//     the head has its own network, mount and UTS namespaces. Except for the directories shown
//     above, hosts see the machine's file system. They see the repository's build/, but its
//     bin/ only if the home is shared.
//   - Loopback needs OpenSSH, but not root. Each host is an sshd on an address 127.0.0.x; the
//     host names are aliases in an ssh configuration.
//   - InProcess needs neither. The hosts are servers of package sshtest in the process that
//     calls Up.
//
// A test cluster changes one setting of the machine: it raises the limits of the kernel's neighbour table, which
// all network namespaces share. A cluster is removed when the process that called Up ends, unless Options.Keep is
// set.
//
// Only the load average of a host can be simulated (load.go). Delays, lost packets and wrong clocks cannot.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// A Kind says how the hosts of a test cluster are made.
type Kind string

const (
	Best       Kind = ""           // in Options: the first of the kinds below that this machine allows
	Namespaces Kind = "namespaces" // needs root; hosts share only the disk and the CPUs
	Loopback   Kind = "loopback"   // sshds of the current user on 127.0.0.x
	InProcess  Kind = "in-process" // SSH servers of package sshtest on 127.0.0.x
)

// Head is the name of the head (the machine on which launchers run), for functions that take the name of a host.
const Head = "head"

// MaxHosts is the maximum number of hosts of a test cluster. A Linux bridge has 1,023 ports. Hosts have the
// addresses 10.88.0.1 to 10.88.3.232.
const MaxHosts = 1000

// Options describe a test cluster. Hosts is required. The zero value of any other field selects its default.
type Options struct {
	Name        string // name of the cluster, for Open; "": a unique name
	Hosts       int    // 1 to MaxHosts
	Kind        Kind   // Best: Up chooses
	Keep        bool   // the cluster outlives the process that called Up, until Down
	SharedHome  bool   // head and hosts share one $HOME, and hosts see the repository's bin/
	MaxStartups string // sshd_config(5); "": OpenSSH's default
	SSHDConfig  string // lines for the top of sshd_config, where they take precedence
	SSHConfig   string // lines for the top of the head's ~/.ssh/config
	Shell       string // login shell of root on the hosts (Namespaces only); "": unchanged
	HashKnown   bool   // host names in known_hosts are hashed

	Slurm  bool // run Slurm in the cluster (slurm.go); Namespaces only, see NoSlurm
	SGE    bool // run Grid Engine (sge.go); Namespaces only, see NoSGE
	Condor bool // run HTCondor (condor.go); Namespaces only, see NoCondor

	// LoadEvery, if not 0, gives each host its own /proc/loadavg, updated at this interval (load.go; in the
	// kernel: 5 s). If it is 0, hosts show the load of the machine. Namespaces only, not with Keep.
	LoadEvery time.Duration
}

// A Host is one of the hosts n1 to nN of a test cluster.
type Host struct {
	Name string
	Addr string // where sshd listens
	Port int
	Init int    // pid of process 1 of its PID namespace, as seen from outside; Namespaces only
	Key  string // public host key, as in authorized_keys
}

// A Cluster is a running test cluster, which consists of a head and hosts. Up or New creates a Cluster, and Down
// removes it.
type Cluster struct {
	Name  string
	Kind  Kind
	Hosts []Host
	Home  string // the head's home folder, as seen from outside the cluster
	Repo  string // root of the repository
	State string // state folder: the cluster's files, removed by Down

	HeadPID      int // a process in the head's namespaces; Namespaces only
	ProcessGroup int // process group of the keeper (see startKeeper); 0: none

	owner *clusterOwner // nil in a Cluster that Open returned
}

// Up creates a test cluster. It returns when the SSH servers of all hosts accept connections, which takes a few
// seconds for 64 hosts. Cancelling ctx stops Up, but does not end a cluster that Up has already created.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if o.Hosts < 1 || o.Hosts > MaxHosts {
		return nil, fmt.Errorf("testbed: %d hosts: from 1 to %d are possible", o.Hosts, MaxHosts)
	}
	kind, err := chooseKind(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.LoadEvery != 0 && (kind != Namespaces || o.Keep) {
		return nil, fmt.Errorf("testbed: LoadEvery needs kind namespaces and no Keep")
	}
	if (o.Slurm || o.SGE || o.Condor) && kind != Namespaces {
		return nil, fmt.Errorf("testbed: a batch system needs kind namespaces, and so root")
	}
	f, err := createState(o, kind)
	if err != nil {
		return nil, err
	}
	switch kind {
	case Namespaces:
		err = f.upNamespaces(ctx, o)
	case Loopback:
		err = f.upLoopback(ctx, o)
	case InProcess:
		err = f.upInProcess(o)
	}
	if err == nil {
		err = f.save()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("test cluster %s: %w%s", f.Name, err, f.scriptLog()), f.Down())
	}
	return f, nil
}

// A Tester has the methods of *testing.T that New needs.
type Tester interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// New calls Up and, at the end of the test, Down. If one of them fails, the test fails.
func New(t Tester, o Options) *Cluster {
	t.Helper()
	f, err := Up(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := f.Down(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return f
}

// Names returns the names of all hosts, separated by commas: "n1,n2,n3".
func (f *Cluster) Names() string {
	names := make([]string, len(f.Hosts))
	for i, h := range f.Hosts {
		names[i] = h.Name
	}
	return strings.Join(names, ",")
}

// Host returns the host with this name, or an error if there is no such host.
func (f *Cluster) Host(name string) (Host, error) {
	i := slices.IndexFunc(f.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, fmt.Errorf("test cluster %s: no host %q; there are n1 to n%d", f.Name, name, len(f.Hosts))
	}
	return f.Hosts[i], nil
}

// unsupported returns an error which says that this kind of cluster does not support an operation. The error wraps
// errors.ErrUnsupported.
func (f *Cluster) unsupported(operation string) error {
	return fmt.Errorf("test cluster %s: %s: not with kind %s: %w", f.Name, operation, f.Kind, errors.ErrUnsupported)
}

// scriptLog returns ": " and what the cluster's scripts have written to standard error, for the end of an error
// message. It returns "" if they have written nothing.
func (f *Cluster) scriptLog() string {
	text, err := os.ReadFile(f.path("log"))
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// poll calls done every 3 ms until done returns true or an error, or until ctx is done. It is used to wait for changes
// that the kernel does not report as events.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Millisecond):
		}
	}
}
