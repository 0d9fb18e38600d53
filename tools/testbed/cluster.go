//go:build linux

// Package testbed makes test hosts on this machine, for tests and by hand.
//
// A field has a head, where launching commands run, and hosts n1..nN, which an SSH
// client on the head reaches by name with the key in the head's home:
//
//	         head                              n1 ... nN
//	+--------------------+           +---------------------------+
//	| mpiexec, ssh, ...  |   br0     | sshd, own host key        |
//	| ~/.ssh: key, known |===========| own address, host name,   |
//	| hosts, config      |           | /tmp /run /dev/shm $HOME  |
//	+--------------------+           +---------------------------+
//
// There are three kinds, for what the machine allows. Namespaces (root): each host has
// network, UTS, PID, IPC and mount namespaces of its own; the head has a network, mount
// and UTS namespace. Everything but the folders named above is the machine's own file
// system, so a program below build/ is there; the repository's bin/ is not, unless the
// home is shared. Loopback (OpenSSH, any user): one sshd per host on 127.0.0.x, the
// names are aliases in an ssh configuration. InProcess (neither): servers of package
// sshtest, in the process that made the field.
//
// Nothing of the machine is changed but the limits of the kernel's neighbour table,
// which cannot be had per namespace and are raised for large fields. A field goes away
// with the process that made it, unless it is to be kept.
//
// It does not simulate: no delays, no losses, no clocks of its own. The one thing that a
// host may have of a kernel of its own is a load average (load.go).
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

// Kind is the way the hosts of a field are made.
type Kind string

const (
	Best       Kind = ""           // in Options: the first of these that the machine allows
	Namespaces Kind = "namespaces" // root: hosts that share nothing but the disk and the CPUs
	Loopback   Kind = "loopback"   // sshds of the current user on 127.0.0.x
	InProcess  Kind = "in-process" // SSH servers of package sshtest, the same way
)

// Head is the name of the head where a host's name is asked for.
const Head = "head"

// MaxHosts is the largest field: hosts have addresses 10.88.0.1 to 10.88.3.232. A bridge of Linux's has 1,023 ports.
const MaxHosts = 1000

// Options say what a field is like. The zero value of each is the usual thing.
type Options struct {
	Name        string // of the field, for Open; "": a unique name
	Hosts       int    // 1 to MaxHosts
	Kind        Kind   // Best: chosen
	Keep        bool   // outlives the process that made it; until Down
	SharedHome  bool   // head and hosts have one $HOME, and the hosts see bin/
	MaxStartups string // sshd_config(5); "": OpenSSH's default
	SSHDConfig  string // lines for the top of sshd_config, where they win
	SSHConfig   string // lines for the top of the head's ~/.ssh/config
	Shell       string // login shell of root on the hosts (Namespaces only); "": unchanged
	HashKnown   bool   // host names in known_hosts are hashed

	Slurm  bool // a batch system of the field's own (slurm.go); Namespaces only, see NoSlurm
	SGE    bool // likewise Grid Engine (sge.go), see NoSGE
	Condor bool // likewise HTCondor (condor.go), see NoCondor

	// LoadEvery gives each host a /proc/loadavg of its own, renewed so often (load.go; the
	// kernel: 5 s). 0: hosts show the load of the machine. Namespaces only, not with Keep.
	LoadEvery time.Duration
}

// A Host is one of n1..nN.
type Host struct {
	Name string
	Addr string // where sshd listens
	Port int
	Init int    // process 1 of its PID namespace, as a pid of ours; Namespaces only
	Key  string // public host key, as in authorized_keys
}

// A Cluster is up from Up to Down.
type Cluster struct {
	Name  string
	Kind  Kind
	Hosts []Host
	Home  string // the head's home folder, by its name outside of the field
	Repo  string // root of the repository
	State string // folder of the field's files, removed by Down

	HeadPID      int // a process in the head's namespaces; Namespaces only
	ProcessGroup int // process group of what holds the field together

	owner *clusterOwner // set in the process that made it
}

// Up makes a field and returns when every host's sshd listens. It needs a few seconds
// for 64 hosts. ctx ends the attempt, not the field.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if o.Hosts < 1 || o.Hosts > MaxHosts {
		return nil, fmt.Errorf("field: %d hosts: from 1 to %d are possible", o.Hosts, MaxHosts)
	}
	kind, err := chooseKind(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.LoadEvery != 0 && (kind != Namespaces || o.Keep) {
		return nil, fmt.Errorf("field: loads of the hosts' own: only with namespaces, while the maker of the field is there")
	}
	if (o.Slurm || o.SGE || o.Condor) && kind != Namespaces {
		return nil, fmt.Errorf("field: a batch system: only with namespaces, and so as root")
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
		return nil, errors.Join(fmt.Errorf("field %s: %w%s", f.Name, err, f.scriptLog()), f.Down())
	}
	return f, nil
}

// A Tester is what New needs of a *testing.T.
type Tester interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// New is Up and, at the end of the test, Down. Either one's failure is the test's.
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

// Names returns the names of the hosts, for the command line: "n1,n2,n3".
func (f *Cluster) Names() string {
	names := make([]string, len(f.Hosts))
	for i, h := range f.Hosts {
		names[i] = h.Name
	}
	return strings.Join(names, ",")
}

// Host returns the host of that name.
func (f *Cluster) Host(name string) (Host, error) {
	i := slices.IndexFunc(f.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, fmt.Errorf("field %s: no host %q; there are n1 to n%d", f.Name, name, len(f.Hosts))
	}
	return f.Hosts[i], nil
}

// unsupported is the error of what only another kind of field can do.
func (f *Cluster) unsupported(what string) error {
	return fmt.Errorf("field %s: %s: not with kind %s: %w", f.Name, what, f.Kind, errors.ErrUnsupported)
}

// scriptLog returns what the field's scripts complained about, to be added to an error.
func (f *Cluster) scriptLog() string {
	text, err := os.ReadFile(f.path("log"))
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// poll asks until done says so. It serves where the kernel reports no event.
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
