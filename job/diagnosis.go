package job

import "time"

// A HostDiagnosis contains the results of examining one host (rule DIAG-5). mpiexec, the host's own helper, and the
// helpers of other hosts examine the host.
type HostDiagnosis struct {
	Node          string     // the host's name in the user's host list
	Local         bool       // the host is the launching machine
	ClusterPolicy NodePolicy // the host's policy in the cluster file
	Failure       Defect     // why no helper runs on it; Text is empty if one does
	Detail        string     // the part of the failure that is specific to this host; may be empty

	Login     time.Duration // time to log in; 0: no login was needed
	Shell     time.Duration // time from the login until the login shell ran /bin/sh; includes the login if Login is 0
	Noise     string        // output of the login shell on stdout
	Skew      time.Duration // the host's clock minus the launching machine's
	SkewError time.Duration // largest error of Skew

	Probe      Probe
	Diagnosis  NodeDiagnosis
	Ledger     LedgerListing
	PeerProbes []PeerProbe // connections from this host to the others
}

// A Defect describes a fault that was found. Code is for programs; Text and Remedy are for people. The zero
// value means that no fault was found.
type Defect struct{ Code, Text, Remedy string }

// A NodeDiagnosis contains the results of the tests that a helper runs on its node for --doctor, in addition to the
// results of a Probe.
type NodeDiagnosis struct {
	Clock        time.Time // the node's clock when the examination began
	Address      string    // address by which other nodes reach this one; empty: unknown
	Interface    string    // network interface that has Address
	MTU          int       // of the interface, in bytes; 0: unknown
	OwnAddresses []string  // addresses that the host's own name resolves to
	OwnNameErr   string    // why OwnAddresses is empty

	Online               int      // number of CPUs that are online
	Limits               []Rlimit // resource limits of the login
	Cgroup               CgroupLimits
	DevShm               FileSystem // /dev/shm
	TempDirs             []FileSystem
	Fabric               string // an RDMA device, which needs locked memory; empty: none
	MaxStartups          int    // MaxStartups of sshd_config(5); 0: unknown
	MaxSessions          int    // MaxSessions of sshd_config(5); 0: unknown
	Dir, Program         Defect // faults of the working directory and of the program
	DirName, ProgramPath string // paths of the working directory and of the program
	PMIOffer             string // which PMI the program would be offered and why (PMIX-6); empty: no program was given
	Attributes           Attributes
	Rules                AdminRules // rules set by the node's own administrator
	Ledger               FileSystem // the directory of claims; the user must be able to create files in it
	Home, Account        Defect     // faults of the login's home directory and account
	MPILibrary           MPILibrary // MPI library that the program is linked with
}

// AdminRules are the rules for one user that a node's administrator has set in files on the node.
type AdminRules struct {
	Forbidden string   // why the user may run nothing there, as a text that follows the node's name; empty: the user may
	Drained   bool     // Forbidden says that root has drained the node
	FileFault bool     // Forbidden applies to every user, because a file has an error
	MaxRanks  int      // most ranks of all jobs at a time; negative: no limit
	Warnings  []string // about lines in the files that have no effect
}

// MaxWarnings is the maximum number of warnings that a node reports about its administrator's files.
const MaxWarnings = 8

// An MPILibrary is the MPI library with which a program is linked. The zero value means that the program is linked with
// no MPI library.
type MPILibrary struct {
	Family string // the implementation, "MPICH"; empty: no library
	File   string // its name with symbolic links resolved, which shows the ABI version: "libmpich.so.12.2.2"
	UCX    bool   // it is linked with libucp and communicates by UCX
}

// A Rlimit is a resource limit that a login on the node gets (getrlimit(2)).
type Rlimit struct {
	Name       string // its name in ulimit: "open files"
	Flag       string // its option of ulimit
	Soft, Hard int64  // negative: unlimited
}

// CgroupLimits are the limits of the control group in which a login runs. A negative value means no limit.
type CgroupLimits struct {
	Memory    int64 // in bytes
	Processes int64
}

// A FileSystem describes the file system that contains a directory.
type FileSystem struct {
	Path        string
	Total, Free int64 // in bytes
	NoExec      bool  // mounted with noexec
	Err         string
}

// A PeerProbe is the result of a test connection to another host. The test connects and sends data as an MPI program
// would.
type PeerProbe struct {
	Peer  string // the other host
	Stage string // the step that failed: connect, small (a few bytes), large (64 KiB); empty: none failed
	Err   string
}
