package job

import "time"

// A Checkup is all that was found out about one host that is examined (DIAG-5): from here,
// by its own helper, and by those of the others.
type Checkup struct {
	Node    string // as the user calls it
	Local   bool   // it is this machine
	Said    Policy // what the cluster file says of it
	Failure Defect // why there is no helper on it; its Text is empty if there is
	Detail  string // of the failure, as it differs between hosts that fail alike; may be empty

	Login time.Duration // until we were logged in; 0: there is no login
	Shell time.Duration // from then on until the login shell had run /bin/sh; with the login if Login is 0
	Noise string        // what the login shell printed on standard output
	Skew  time.Duration // of its clock against ours; positive: it is ahead
	Blur  time.Duration // by how much Skew may be wrong

	Probe      Probe
	Exam       Exam
	Page       Page
	PeerProbes []PeerProbe // at the other hosts
}

// A Defect is why something is not as it should be, and what to do about it. Its code is
// for programs.
type Defect struct{ Code, Text, Remedy string }

// An Exam is what a helper finds out about its own machine and login, beyond a Probe.
type Exam struct {
	Clock     time.Time // the node's own, when it began
	Address   string    // under which peers reach the node; empty: unknown
	Interface string    // that has the address
	MTU       int       // of the interface, in bytes; 0: unknown
	OwnName   []string  // addresses of the host's own name
	NameErr   string    // why it has none

	Online         int     // CPUs that are switched on
	Limits         []Limit // of what the login may use
	Group          Group
	Shared         Space // /dev/shm
	Folders        []Space
	Fabric         string // a device for RDMA, which needs locked memory; empty: none
	MaxStartups    int    // of its sshd; 0: unknown
	MaxSessions    int    // the same
	Dir, Program   Defect // of the working directory, and of the program
	DirName, Found string // which they are
	Offer          string // what the program would be offered, and why (PMIX-6); empty: there is none
	Traits         Traits
	Rules          NodeRules // of the node's own administrator
	Ledger         Space     // the directory of claims, in which the user has to make files
	Home, Account  Defect    // of the login
	Library        Library   // for MPI, with which the program is linked
}

// NodeRules are what the files of a node's own administrator say to one user.
type NodeRules struct {
	Barred   string   // why nothing of his runs there, in words that follow the node's name; empty: it does
	Faulty   bool     // Barred is so for everybody, since a file has a fault
	Most     int      // ranks of all jobs at a time; negative: any number
	Warnings []string // of what a file says and has no effect
}

// MaxWarnings is of how many warnings about its administrator's files a node tells.
const MaxWarnings = 8

// A Library is one for MPI.
type Library struct {
	Family string // as people call it, "MPICH"; empty: there is none
	File   string // its name without links, which has the version of its interface, "libmpich.so.12.2.2"
	UCX    bool   // it needs libucp, by which it talks to other nodes
}

// A Limit is one of getrlimit(2), as the login has it.
type Limit struct {
	Name       string // as ulimit calls it: "open files"
	Flag       string // of ulimit
	Soft, Hard int64  // negative: unlimited
}

// A Group is what the control group of the login may have. Negative: no limit.
type Group struct {
	Memory    int64 // in bytes
	Processes int64
}

// A Space is a folder's file system.
type Space struct {
	Path        string
	Total, Free int64 // in bytes
	NoExec      bool  // no program can be run from it
	Err         string
}

// A PeerProbe is an attempt to reach another host as an MPI program would.
type PeerProbe struct {
	At    string // the other host
	Stage string // that failed: connect, small (a few bytes), large (64 KiB); empty: all went well
	Err   string
}
