package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/pin"
	"remshell/plan"
	"remshell/plan/nodeset"
)

// healthy returns a host without problems.
func healthy(name string) job.HostDiagnosis {
	c := job.HostDiagnosis{Node: name, Login: 120 * time.Millisecond, Skew: 40 * time.Millisecond, SkewError: time.Millisecond}
	c.Probe = job.Probe{Hostname: name, Arch: "amd64", Memory: job.Memory{Total: 64 << 30}}
	for cpu := range 4 {
		c.Probe.Topology.Cores = append(c.Probe.Topology.Cores, pin.Core{CPUs: []int{cpu, cpu + 4}})
	}
	c.Diagnosis = job.NodeDiagnosis{
		Address: "10.0.0.1", Interface: "eth0", MTU: 1500, OwnAddresses: []string{"10.0.0.1"}, Online: 8,
		Limits: []job.Rlimit{{Name: "open files", Flag: "n", Soft: 1024, Hard: 1024}, {Name: "processes", Flag: "u", Soft: -1, Hard: -1},
			{Name: "locked memory", Flag: "l", Soft: 64 << 10, Hard: 64 << 10}, {Name: "stack", Flag: "s", Soft: 8 << 20, Hard: 8 << 20},
			{Name: "virtual memory", Flag: "v", Soft: -1, Hard: -1}},
		Cgroup: job.CgroupLimits{Memory: -1, Processes: -1},
		DevShm: job.FileSystem{Path: "/dev/shm", Total: 32 << 30, Free: 32 << 30}, MaxStartups: 10,
		TempDirs: []job.FileSystem{{Path: "/tmp", Total: 1 << 40, Free: 1 << 39}},
		Rules:    job.AdminRules{MaxRanks: -1}, Ledger: job.FileSystem{Path: "/var/tmp", Total: 1 << 40, Free: 1 << 39},
	}
	return c
}

// A case changes b, one of three healthy hosts. want is "level code: text", and hint a part of the remedy.
var cases = []struct {
	name       string
	ill        func(*job.HostDiagnosis)
	want, hint string
}{
	{"host key", func(c *job.HostDiagnosis) {
		c.Failure = job.Defect{Code: "unknown-key", Text: "host key: unknown", Remedy: "check it"}
	}, "failure unknown-key: host key: unknown", "check it"},
	{"no remedy of its own", func(c *job.HostDiagnosis) { c.Failure = job.Defect{Code: "refused", Text: "connect: refused"} }, "failure refused: connect: refused", "start sshd"},
	{"slow login", func(c *job.HostDiagnosis) { c.Login = 4 * time.Second }, "warning slow-login: the login takes longer than 3s", "UseDNS"},
	{"slow shell", func(c *job.HostDiagnosis) { c.Shell = 12 * time.Second }, "warning slow-shell: the login shell takes longer than 3s to run a command", "ssh b true"},
	{"noise", func(c *job.HostDiagnosis) { c.Noise = "\nhello\nyou\n" }, `warning login-noise: the login shell prints text ("hello"); mpiexec ignores it, but scp and rsync fail`, "$-"},
	{"long noise", func(c *job.HostDiagnosis) { c.Noise = strings.Repeat("é", 100) }, `warning login-noise: the login shell prints text ("` + strings.Repeat("é", 30) + `..."); mpiexec ignores it, but scp and rsync fail`, ""},
	{"a typo in node.toml", func(c *job.HostDiagnosis) {
		c.Diagnosis.Rules = job.AdminRules{Forbidden: "the host does not allow jobs, because mpiexec cannot read the rules of its administrator: /etc/remshell/node.toml:1: bad", FileFault: true}
	}, "failure node-file: the host does not allow jobs, because mpiexec cannot read the rules of its administrator: /etc/remshell/node.toml:1: bad", "ask the administrator"},
	{"a typo where the cluster file runs no jobs", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.NoJobs, c.Diagnosis.Rules = true, job.AdminRules{Forbidden: "runs no jobs, bad", FileFault: true}
	}, "failure node-file: runs no jobs, bad", "belongs to root"},
	{"reserved for others", func(c *job.HostDiagnosis) { c.Diagnosis.Rules.Forbidden = "the host is reserved for other users (f)" }, "failure barred: the host is reserved for other users (f)", "do not use this host"},
	{"drained", func(c *job.HostDiagnosis) {
		c.Diagnosis.Rules.Forbidden, c.Diagnosis.Rules.Drained = "was drained by root", true
	}, "failure barred: was drained by root", "ask root to run: mpijob undrain root@HOST"},
	{"a front end", func(c *job.HostDiagnosis) {
		c.Diagnosis.Rules.Forbidden, c.ClusterPolicy.NoJobs = "the host does not allow jobs (f)", true
	}, "", ""},
	{"a name that nobody has", func(c *job.HostDiagnosis) { c.Diagnosis.Rules.Warnings = []string{"f:3: users: no user"} }, "warning node-file: f:3: users: no user", "numeric ID"},
	{"no account", func(c *job.HostDiagnosis) {
		c.Diagnosis.Account = job.Defect{Code: "account", Text: "none", Remedy: "getent"}
	}, "warning account: none", "getent"},
	{"no home", func(c *job.HostDiagnosis) {
		c.Diagnosis.Home = job.Defect{Code: "home", Text: "none", Remedy: "mount it"}
	}, "warning home: none", "mount it"},
	{"all is claimed", func(c *job.HostDiagnosis) {
		c.Ledger.Claims = []job.Claim{{Job: "j1", User: "ann", Ranks: []job.ClaimedRank{{CPUs: []int{0, 1}}}}, {Job: "j2", UID: 7, Ranks: []job.ClaimedRank{{CPUs: []int{6}}, {CPUs: []int{3, 7}}}}}
	}, "warning claimed: other jobs use all CPUs of the host: job j1 of ann and 1 more", "--ps b"},
	{"half is claimed", func(c *job.HostDiagnosis) {
		c.Ledger.Claims = []job.Claim{{Job: "j1", User: "ann", Ranks: []job.ClaimedRank{{CPUs: []int{0, 1, 4, 5, 2}}}}}
	}, "", ""},
	{"claimed for one job alone", func(c *job.HostDiagnosis) {
		c.Ledger.Claims = []job.Claim{{Job: "j1", UID: 7, Exclusive: true}}
	}, "warning claimed: other jobs use all CPUs of the host: job j1 of uid 7", "--wait"},
	{"claims cannot be made", func(c *job.HostDiagnosis) { c.Diagnosis.Ledger.Err = "read-only file system" }, "warning ledger: other jobs may use the same CPUs: cannot use the claims in /var/tmp: read-only file system", "--ledger"},
	{"no room for claims", func(c *job.HostDiagnosis) { c.Diagnosis.Ledger.Free = 1 << 20 }, "warning disk-full: /var/tmp has only 1 MiB of free space", "free space"},
	{"an MPI that hangs across hosts", func(c *job.HostDiagnosis) {
		c.Diagnosis.MPILibrary = job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.2.2", UCX: true}
	},
		"warning mpich-finalize: the program is linked with MPICH 4.0 with UCX (Debian 12); with this library, if ranks are on several hosts, MPI_Finalize sometimes hangs, because one rank waits for another one that has already finished" +
			"note mpich-spawn: the program is linked with MPICH 4.0 to 4.2 with UCX (Debian 12 and 13); with this library, MPI_Comm_spawn and MPI_Open_port fail", "another MPI"},
	{"clock ahead", func(c *job.HostDiagnosis) { c.Skew = 90*time.Second + 300*time.Millisecond }, "warning clock: the clock of the host is 1m30s ahead of the clock of this machine", "NTP"},
	{"clock behind", func(c *job.HostDiagnosis) { c.Skew = -5 * time.Second }, "warning clock: the clock of the host is 5s behind the clock of this machine", "NTP"},
	{"clock, but nobody knows", func(c *job.HostDiagnosis) { c.Skew, c.SkewError = 5*time.Second, 4*time.Second }, "", ""},
	{"directory", func(c *job.HostDiagnosis) {
		c.Diagnosis.Dir = job.Defect{Code: "directory", Text: "no /w", Remedy: "-wdir"}
	}, "failure directory: no /w", "-wdir"},
	{"program", func(c *job.HostDiagnosis) { c.Diagnosis.Program = job.Defect{Code: "program", Text: "no x"} }, "failure program: no x", "copy the program"},
	{"open files", func(c *job.HostDiagnosis) { c.Diagnosis.Limits[0].Hard = 256 }, "warning limit: a login has a limit of only 256 for open files (ulimit -Hn)", "at least 1024"},
	{"open files here", func(c *job.HostDiagnosis) { c.Local, c.Diagnosis.Limits[0].Soft = true, 256 }, "warning limit: a login has a limit of only 256 for open files (ulimit -n)", "at least 1024"},
	{"few open files, but more may be had", func(c *job.HostDiagnosis) { c.Diagnosis.Limits[0].Soft = 256 }, "", ""},
	{"processes", func(c *job.HostDiagnosis) { c.Diagnosis.Limits[1].Soft = 100 }, "warning limit: a login has a limit of only 100 for processes (ulimit -u)", "at least 512"},
	{"stack", func(c *job.HostDiagnosis) { c.Diagnosis.Limits[3].Hard = 512 << 10 }, "warning limit: a login has a limit of only 512 KiB for stack (ulimit -Hs)", "at least 1024"},
	{"virtual memory", func(c *job.HostDiagnosis) { c.Diagnosis.Limits[4].Hard = 1 << 30 }, "warning limit: a login has a limit of only 1048576 KiB for virtual memory (ulimit -Hv)", "unlimited"},
	{"locked memory", func(c *job.HostDiagnosis) { c.Diagnosis.Fabric = "mlx5_0" }, "warning limit: a login has a limit of only 64 KiB for locked memory (ulimit -Hl)", "mlx5_0"},
	{"a speed of another machine", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.Attributes = nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(3000)}}
		c.Diagnosis.Attributes = job.Attributes{Speed: 2000, SpeedQuality: job.SpeedNominal}
	}, "warning label: the cluster file sets procspeed to 3000, but the node reports 2000", "--display topo"},
	{"a speed that was measured proves nothing", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.Attributes = nodeset.Attributes{nodeset.ProcSpeed: {Number: nodeset.FromInt(3000)}}
		c.Diagnosis.Attributes = job.Attributes{Speed: 2000, SpeedQuality: job.SpeedMeasured}
	}, "", ""},
	{"memory of another machine", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.Attributes = nodeset.Attributes{nodeset.Memory: {Number: nodeset.FromInt(131072)}}
	}, "warning label: the cluster file sets memory to 131072, but the node reports 65536", "correct memory"},
	{"about as much memory", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.Attributes = nodeset.Attributes{nodeset.Memory: {Number: nodeset.FromInt(64000)}}
	}, "", ""},
	{"a network that is not there to be taken away", func(c *job.HostDiagnosis) {
		c.ClusterPolicy.Networks, c.Diagnosis.Attributes.Networks = []string{"via", "-ib"}, []string{"ethernet"}
	}, "warning label: the cluster file sets networks to -ib, but the node reports ethernet", "networks"},
	{"pids", func(c *job.HostDiagnosis) { c.Diagnosis.Cgroup.Processes = 100 }, "warning cgroup: the control group of the login allows only 100 processes (pids.max)", "TasksMax"},
	{"quota", func(c *job.HostDiagnosis) { c.Probe.CPUQuota = 1 }, "warning cpu-quota: the control group of the login may use only 1 of 4 cores at a time (cpu.max), so the host has 1 slot", "--cpus"},
	{"memory", func(c *job.HostDiagnosis) { c.Diagnosis.Cgroup.Memory = 300 << 20 }, "warning cgroup: the control group of the login allows only 300 MiB of memory (memory.max)", "MemoryMax"},
	{"shm of a container", func(c *job.HostDiagnosis) { c.Diagnosis.DevShm.Total, c.Diagnosis.DevShm.Free = 64<<20, 64<<20 }, "warning dev-shm: /dev/shm has a size of only 64 MiB; ranks on the same node communicate through it", "--shm-size"},
	{"shm full", func(c *job.HostDiagnosis) { c.Diagnosis.DevShm.Free = 1 << 20 }, "warning dev-shm: /dev/shm has only 1 MiB of free space", "ls -l /dev/shm"},
	{"no shm", func(c *job.HostDiagnosis) { c.Diagnosis.DevShm = job.FileSystem{Err: "not there"} }, "failure dev-shm: /dev/shm: not there", "mount"},
	{"full disk", func(c *job.HostDiagnosis) { c.Diagnosis.TempDirs[0].Free = 0 }, "warning disk-full: /tmp has only 0 bytes of free space", "free space"},
	{"mask", func(c *job.HostDiagnosis) { c.Diagnosis.Online = 64 }, "warning cpu-mask: a login may use only 8 of 64 CPUs", "taskset"},
	{"MaxStartups", func(c *job.HostDiagnosis) { c.Diagnosis.MaxStartups = 1 }, "warning max-startups: sshd on the host drops logins if there are more than 1 at the same time (MaxStartups)", "raise MaxStartups"},
	{"MaxSessions", func(c *job.HostDiagnosis) { c.Diagnosis.MaxSessions = 1 }, "warning max-sessions: sshd on the host allows only 1 session for each connection (MaxSessions)", "ControlMaster"},
	{"ledger", func(c *job.HostDiagnosis) { c.Ledger.Err = "not sticky" }, "warning ledger: other jobs may use the same CPUs: not sticky", "--ledger"},
	{"a user's ledger is full", func(c *job.HostDiagnosis) { c.Ledger.Notice = "the list of jobs is incomplete: too much" }, "warning ledger: the list of jobs is incomplete: too much", "ask its user"},
	{"own name", func(c *job.HostDiagnosis) { c.Diagnosis.OwnAddresses = []string{"127.0.1.1", "::1"} }, "warning own-name: on the host, its own name has the address 127.0.1.1; some MPI libraries use this address to connect ranks", "10.0.0.1 b"},
	{"own name, among others", func(c *job.HostDiagnosis) { c.Diagnosis.OwnAddresses = []string{"127.0.1.1", "10.0.0.1"} }, "", ""},
	{"no own name", func(c *job.HostDiagnosis) { c.Diagnosis.OwnAddresses, c.Diagnosis.OwnNameErr = nil, "nowhere" }, "warning own-name: the host cannot resolve its own name: nowhere", "10.0.0.1 b"},
	{"own name, reached at the loopback", func(c *job.HostDiagnosis) {
		c.Local, c.Diagnosis.Address, c.Diagnosis.OwnAddresses = true, "127.0.0.1", []string{"127.0.1.1"}
	},
		"warning own-name: on the host, its own name has the address 127.0.1.1; some MPI libraries use this address to connect ranks", "so that the name of the host has its network address there"},
	{"reached at the loopback", func(c *job.HostDiagnosis) { c.Diagnosis.Address = "127.0.1.1" }, "warning loopback: on this machine, the name of the host has the loopback address 127.0.1.1, which other hosts cannot reach", "HostName"},
	{"MTU", func(c *job.HostDiagnosis) { c.Diagnosis.MTU = 9000 }, "warning mtu: the MTU of eth0 is 9000, but on most hosts it is 1500", "ip link set eth0 mtu 1500"},
	{"no route", func(c *job.HostDiagnosis) {
		c.PeerProbes = []job.PeerProbe{{Peer: "a", Stage: "connect", Err: "no"}, {Peer: "c", Stage: "connect", Err: "no"}}
	}, "failure no-route: cannot reach a,c on a high port: no", "firewalls"},
	{"swallowed", func(c *job.HostDiagnosis) {
		c.PeerProbes = []job.PeerProbe{{Peer: "a", Stage: "large", Err: "no"}, {Peer: "c", Stage: "", Err: ""}}
	}, "failure mtu: small packets to a arrive, but packets of full size do not: no", "mtu 1500"},
}

func TestDiagnose(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			hosts := []job.HostDiagnosis{healthy("a"), healthy("b"), healthy("c")}
			c.ill(&hosts[1])
			r := Diagnose(hosts, nil)
			got, hint := "", ""
			for _, f := range r.Findings {
				got += fmt.Sprintf("%v %s: %s", f.Level, f.Code, f.Text)
				hint = f.Remedy
				if !slices.Equal(f.Hosts, []string{"b"}) {
					t.Errorf("hosts %v, want b", f.Hosts)
				}
			}
			if got != c.want || !strings.Contains(hint, c.hint) {
				t.Errorf("found %q (%q)\nwant %q (%q)", got, hint, c.want, c.hint)
			}
			if want := map[string]int{"": 0, "w": 1, "f": 125}[c.want[:min(1, len(c.want))]]; r.ExitCode(125) != want {
				t.Errorf("code %d, want %d", r.ExitCode(125), want)
			}
		})
	}
}

// The name and address of a single host are not checked.
func TestDiagnoseOfOneHost(t *testing.T) {
	c := healthy("a")
	c.Diagnosis.Address, c.Diagnosis.OwnAddresses, c.Diagnosis.OwnNameErr = "127.0.0.1", nil, "none"
	if r := Diagnose([]job.HostDiagnosis{c}, nil); len(r.Findings) > 0 {
		t.Errorf("found %v", r.Findings)
	}
}

// On this machine alone jobs share CPUs, so claims of other jobs are no problem. Faults of an MPI library between hosts
// do not matter either. A note is no warning.
func TestDiagnoseOfThisMachine(t *testing.T) {
	c := healthy("localhost")
	c.Local = true
	c.Ledger.Claims = []job.Claim{{Job: "j1", Exclusive: true}}
	c.Diagnosis.MPILibrary = job.MPILibrary{Family: "MPICH", File: "libmpich.so.12.2.2", UCX: true}
	c.Diagnosis.TempDirs[0].NoExec = true
	r := Diagnose([]job.HostDiagnosis{c}, nil)
	var codes []string
	for _, f := range r.Findings {
		codes = append(codes, f.Level.String()+" "+f.Code)
	}
	if want := []string{"note noexec", "note mpich-spawn"}; !slices.Equal(codes, want) || r.ExitCode(125) != 0 || r.WorstLevel() != Fine || !strings.HasSuffix(r.Text(0), "\n1 host: all fine\n") {
		t.Errorf("found %q, want %q; code %d\n%s", codes, want, r.ExitCode(125), r.Text(0))
	}
}

// Long lines are folded at the width of the terminal and indented. The command to type next is not folded.
func TestReportFoldsAtTheWidth(t *testing.T) {
	c := healthy("n1")
	c.Diagnosis.TempDirs[0].NoExec = true
	r := Diagnose([]job.HostDiagnosis{c, healthy("n2")}, nil)
	r.Next = "mpiexec -hosts n1,n2 -n 4 ./a/program/with/a/long/name and its arguments"
	const width = 50
	lines := strings.Split(r.Text(width), "\n")
	for i, line := range lines {
		if len(line) > width && !strings.HasPrefix(line, "Next: ") && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("line %d has %d letters: %q", i, len(line), line)
		}
	}
	if !slices.Contains(lines, "Next: "+r.Next) {
		t.Errorf("the command is folded")
	}
	if got, want := strings.Fields(r.Text(width)), strings.Fields(r.Text(0)); !slices.Equal(got, want) {
		t.Errorf("words %q, want %q", got, want)
	}
	if t.Failed() {
		t.Log(r.Text(width))
	}
}

// Problems of the launching machine are reported for "this machine".
func TestDiagnoseOfTheLaunchingMachine(t *testing.T) {
	here := healthy("").Diagnosis
	here.Limits[4].Soft, here.Limits[0].Soft = 1<<30, -1
	here.Home = job.Defect{Code: "home", Text: "HOME is not set", Remedy: "set it"}
	r := Diagnose([]job.HostDiagnosis{healthy("a")}, &here, job.Defect{Code: "ssh-file", Text: "no agent", Remedy: "start one"})
	r.Next = "mpiexec"
	const want = `
warning  this machine: HOME is not set
         set it

warning  this machine: a login has a limit of only 1048576 KiB for virtual memory (ulimit -v)
         raise the limit in /etc/security/limits.conf, or with ulimit -v before you start mpiexec, to: unlimited

warning  this machine: no agent
         start one

1 host, 1 reached: 0 failures, 3 warnings
Next: mpiexec
`
	if !strings.HasSuffix(r.Text(0), want) || !strings.Contains(r.JSON(), `"hosts":[],"text":"no agent"`) || !strings.Contains(r.JSON(), `"next":"mpiexec"`) {
		t.Errorf("%s\n%s", r.Text(0), r.JSON())
	}
}

const wholeReport = `n[1-3]  4 cores with 8 threads, 64 GiB of memory, 32 GiB in /dev/shm, a login takes 0.12 to 0.50 s
n4      cannot be used

failure  n4: connect: refused
         start sshd on the host, or set its port in the ssh configuration: Port N

warning  n[1-2]: a login may use only 8 of 64 CPUs
         to see the CPUs of a login, run "taskset -pc $$" on the host; possible causes are a cpuset of the user's slice or container, and the CPU mask of sshd

4 hosts, 3 reached: 1 failure, 1 warning
`

// Equal findings are merged, and failures come first.
func TestText(t *testing.T) {
	hosts := []job.HostDiagnosis{healthy("n1"), healthy("n2"), healthy("n3"), {Node: "n4", Failure: job.Defect{Code: "refused", Text: "connect: refused"}}}
	hosts[0].Diagnosis.Online, hosts[1].Diagnosis.Online, hosts[2].Login = 64, 64, time.Second/2
	r := Diagnose(hosts, nil)
	if r.Text(0) != wholeReport {
		t.Errorf("got\n%s\nwant\n%s", r.Text(0), wholeReport)
	}
	var parsed struct {
		Verdict  string
		Hosts    []struct{ Reached bool }
		Findings []struct{ Code string }
	}
	err := json.Unmarshal([]byte(r.JSON()), &parsed)
	if err != nil || parsed.Verdict != "failure" || len(parsed.Hosts) != 4 || parsed.Hosts[3].Reached || parsed.Findings[1].Code != "cpu-mask" {
		t.Errorf("%v: %+v", err, parsed)
	}
}

// Each failure has a remedy, even with an unknown code.
func TestEveryFailureHasARemedy(t *testing.T) {
	ill := job.HostDiagnosis{Node: "a", Failure: job.Defect{Code: "moonshine", Text: "too bright"}}
	if r := Diagnose([]job.HostDiagnosis{ill}, nil); len(r.Findings) != 1 || r.Findings[0].Remedy == "" {
		t.Errorf("found %+v", r.Findings)
	}
}

// A job that would be refused is a failure, one that would wait a warning.
func TestARefusedJobIsAFailure(t *testing.T) {
	fine := Diagnose([]job.HostDiagnosis{healthy("a")}, nil)
	if r := fine.WithRefusal(nil); r.WorstLevel() != Fine {
		t.Errorf("%+v", r.Findings)
	}
	refused := &plan.Error{Code: plan.CodeNotEnough, Text: "6 ranks do not fit", Remedy: "start fewer", Rejected: []job.Note{{Node: "a", Code: "cpus-full", Text: "all in use"}}}
	r := fine.WithRefusal(refused)
	if text := r.Text(0); r.WorstLevel() != Failure || r.Findings[0].Code != plan.CodeNotEnough || !strings.Contains(text, "\nfailure  the job: 6 ranks do not fit\n           ") || !strings.Contains(text, "\n         start fewer\n") {
		t.Errorf("%v\n%s", r.WorstLevel(), text)
	}
	waits := *refused
	waits.QueuePosition = 2
	r = fine.WithRefusal(&waits)
	if r.WorstLevel() != Warning || r.Findings[0].Text != "the job would wait at position 2 of the queue: 6 ranks do not fit" {
		t.Errorf("%+v", r.Findings)
	}
}

// In JSON the next command stands alone; the text explains it.
func TestNextIsACommandForPrograms(t *testing.T) {
	fine := Diagnose([]job.HostDiagnosis{healthy("a")}, nil)
	fine.Next = "mpiexec -host a true"
	failed := fine.WithRefusal(errors.New("no room"))
	for text, r := range map[string]Report{"\nNext: mpiexec -host a true\n": fine, "\nAfter that, run the check again: mpiexec -host a true\n": failed} {
		if !strings.HasSuffix(r.Text(0), text) || !strings.Contains(r.JSON(), `"next":"mpiexec -host a true"`) {
			t.Errorf("no %q in\n%s%s", text, r.Text(0), r.JSON())
		}
	}
}

// The report does not name the directory of claims of a host where none can be made.
func TestClaimDirectoryOnlyIfUsable(t *testing.T) {
	c := healthy("a")
	c.Ledger.Path = "/var/tmp/remshell-1"
	if text := Diagnose([]job.HostDiagnosis{c}, nil).Text(0); !strings.Contains(text, ", claims in /var/tmp") {
		t.Errorf("no place of the claims:\n%s", text)
	}
	for _, ill := range []func(*job.HostDiagnosis){
		func(c *job.HostDiagnosis) { c.Ledger.Err = "not sticky" },
		func(c *job.HostDiagnosis) { c.Diagnosis.Ledger.Err = "read-only file system" },
	} {
		c := c
		ill(&c)
		if text := Diagnose([]job.HostDiagnosis{c}, nil).Text(0); strings.Contains(text, ", claims in") {
			t.Errorf("the place of claims that are refused:\n%s", text)
		}
	}
}
