package job

import "time"

// A HostDiagnosis is all that was found out about one host that is examined (DIAG-5): from here,
// by its own helper, and by those of the others.
type HostDiagnosis struct {
	Node          string     // as the user calls it
	Local         bool       // it is this machine
	ClusterPolicy NodePolicy // what the cluster file says of it
	Failure       Defect     // why there is no helper on it; its Text is empty if there is
	Detail        string     // of the failure, as it differs between hosts that fail alike; may be empty

	Login     time.Duration // until we were logged in; 0: there is no login
	Shell     time.Duration // from then on until the login shell had run /bin/sh; with the login if Login is 0
	Noise     string        // what the login shell printed on standard output
	Skew      time.Duration // of its clock against ours; positive: it is ahead
	SkewError time.Duration // by how much Skew may be wrong

	Probe      Probe
	Diagnosis  NodeDiagnosis
	Ledger     LedgerListing
	PeerProbes []PeerProbe // at the other hosts
}

// A Defect is why something is not as it should be, and what to do about it. Its code is
// for programs.
type Defect struct{ Code, Text, Remedy string }

// A NodeDiagnosis is what a helper finds out about its own machine and login, beyond a Probe.
type NodeDiagnosis struct {
	Clock        time.Time // the node's own, when it began
	Address      string    // under which peers reach the node; empty: unknown
	Interface    string    // that has the address
	MTU          int       // of the interface, in bytes; 0: unknown
	OwnAddresses []string  // addresses of the host's own name
	OwnNameErr   string    // why it has none

	Online               int      // CPUs that are switched on
	Limits               []Rlimit // of what the login may use
	Cgroup               CgroupLimits
	DevShm               FileSystem // /dev/shm
	TempDirs             []FileSystem
	Fabric               string // a device for RDMA, which needs locked memory; empty: none
	MaxStartups          int    // of its sshd; 0: unknown
	MaxSessions          int    // the same
	Dir, Program         Defect // of the working directory, and of the program
	DirName, ProgramPath string // which they are
	PMIOffer             string // what the program would be offered, and why (PMIX-6); empty: there is none
	Attributes           Attributes
	Rules                AdminRules // of the node's own administrator
	Ledger               FileSystem // the directory of claims, in which the user has to make files
	Home, Account        Defect     // of the login
	MPILibrary           MPILibrary // for MPI, with which the program is linked
}

// AdminRules are what the files of a node's own administrator say to one user.
type AdminRules struct {
	Forbidden string   // why nothing of his runs there, in words that follow the node's name; empty: it does
	FileFault bool     // Barred is so for everybody, since a file has a fault
	MaxRanks  int      // ranks of all jobs at a time; negative: any number
	Warnings  []string // of what a file says and has no effect
}

// MaxWarnings is of how many warnings about its administrator's files a node tells.
const MaxWarnings = 8

// A MPILibrary is one for MPI.
type MPILibrary struct {
	Family string // as people call it, "MPICH"; empty: there is none
	File   string // its name without links, which has the version of its interface, "libmpich.so.12.2.2"
	UCX    bool   // it needs libucp, by which it talks to other nodes
}

// A Rlimit is one of getrlimit(2), as the login has it.
type Rlimit struct {
	Name       string // as ulimit calls it: "open files"
	Flag       string // of ulimit
	Soft, Hard int64  // negative: unlimited
}

// A CgroupLimits is what the control group of the login may have. Negative: no limit.
type CgroupLimits struct {
	Memory    int64 // in bytes
	Processes int64
}

// A FileSystem is a folder's file system.
type FileSystem struct {
	Path        string
	Total, Free int64 // in bytes
	NoExec      bool  // no program can be run from it
	Err         string
}

// A PeerProbe is an attempt to reach another host as an MPI program would.
type PeerProbe struct {
	Peer  string // the other host
	Stage string // that failed: connect, small (a few bytes), large (64 KiB); empty: all went well
	Err   string
}
