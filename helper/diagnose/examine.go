//go:build linux

/*
Package diagnose handles the requests of --doctor on a node (wire/diagnose.go). It examines this machine and login, and
tests whether other nodes can be reached in the way that ranks of an MPI program would connect to them.

	session --HandleMessage--> Examiner --> Diagnosed, ProbePortOpened, PeersProbed

Name lookups and probes of other nodes may take seconds, so each reply is made on a goroutine of its own.
*/
package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/pmidetect"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/ledger"
	"remshell/nsswitch"
	"remshell/pin"
	"remshell/proc"
	"remshell/wire"
)

// A Node is the machine and the login that an Examiner examines.
type Node struct {
	Root    fs.FS            // "/"
	Environ []string         // of the login
	Now     func() time.Time // nil: time.Now
}

// An Examiner handles the requests of one session.
type Examiner struct {
	node  Node
	send  func(wire.Message) error
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	port  *probePort // nil: not open; used only by the goroutine that calls HandleMessage
}

// New returns an Examiner. It sends its replies to mpiexec with send.
func New(node Node, send func(wire.Message) error) *Examiner {
	e := &Examiner{node: node, send: send}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// handlers is the table of functions that handle the messages of --doctor.
var handlers = func() (o wire.Owner[*Examiner]) {
	wire.Handle(&o, func(e *Examiner, m *wire.Diagnose) {
		e.tasks.Go(func() { e.send(&wire.Diagnosed{Diagnosis: e.node.examine(e.ctx, m)}) })
	})
	wire.Handle(&o, (*Examiner).listen)
	wire.Handle(&o, func(e *Examiner, m *wire.ProbePeers) {
		e.tasks.Go(func() { e.send(&wire.PeersProbed{Probes: probePeers(e.ctx, m.Ports)}) })
	})
	return o
}()

// Owns reports whether m is a message of --doctor, which an Examiner handles.
func Owns(m wire.Message) bool { return handlers.Owns(m) }

// HandleMessage handles a message of --doctor. It does not block.
func (e *Examiner) HandleMessage(m wire.Message) { handlers.Handle(e, m) }

// Close cancels all work in progress, closes the probe port, and waits until all goroutines have ended.
func (e *Examiner) Close() {
	e.stop()
	if e.port != nil {
		e.port.close()
	}
	e.tasks.Wait()
}

// lookupTimeout is how long looking up the host's own name may take.
const lookupTimeout = 3 * time.Second

// examine examines this machine and the user's login on it.
func (n Node) examine(ctx context.Context, m *wire.Diagnose) job.NodeDiagnosis {
	now := n.Now
	if now == nil {
		now = time.Now
	}
	if m.Brief {
		exam := job.NodeDiagnosis{Clock: now(), Rules: probe.SystemFiles.Rules()}
		examineProgram(&exam, n.Environ, m)
		return exam
	}
	exam := job.NodeDiagnosis{
		Clock: now(), Address: m.Address, Online: onlineCPUs(n.Root), Limits: loginLimits(ctx), Cgroup: cgroupLimits(n.Root),
		DevShm: folderSpace("/dev/shm"), Fabric: rdmaDevice(n.Root), Attributes: probe.Attributes(n.Root, n.Environ),
		Rules: probe.SystemFiles.Rules(), Home: homeDefect(n.Environ), Account: accountDefect(ctx),
		Ledger: claimDirSpace(cmp.Or(m.Ledger, ledger.Default)),
	}
	for _, dir := range []string{cacheDir(n.Environ), "/tmp"} {
		if dir != "" {
			exam.TempDirs = append(exam.TempDirs, folderSpace(dir))
		}
	}
	if exam.Address == "" {
		if local, _, ok := probe.SSHConnection(n.Environ); ok {
			exam.Address = local.Addr().String()
		}
	}
	exam.Interface, exam.MTU = interfaceOf(exam.Address)
	exam.OwnAddresses, exam.OwnNameErr = ownName(ctx)
	exam.MaxStartups, exam.MaxSessions = sshdLimits(n.Root)
	examineProgram(&exam, n.Environ, m)
	return exam
}

// ExamineLogin examines only the session in which it runs: its limits, and the user's home directory and account.
func ExamineLogin(ctx context.Context, environ []string) job.NodeDiagnosis {
	return job.NodeDiagnosis{Limits: loginLimits(ctx), Home: homeDefect(environ), Account: accountDefect(ctx)}
}

// examineProgram checks the working directory and the program of a job.
func examineProgram(exam *job.NodeDiagnosis, environ []string, m *wire.Diagnose) {
	exam.DirName = m.Dir
	if !filepath.IsAbs(m.Dir) {
		exam.DirName = filepath.Join(job.EnvValue(environ, "HOME"), m.Dir)
	}
	if failed := rank.CheckWorkingDir(exam.DirName); m.Dir != "" && failed != nil {
		exam.Dir = job.Defect{Code: "directory", Text: failed.Reason, Remedy: failed.Hint}
	}
	if m.Program == "" {
		return
	}
	path := m.Path
	if path == "" {
		path = rank.SearchPath(environ)
	}
	var failed *rank.Error
	if exam.ProgramPath, failed = rank.FindProgram(m.Program, exam.DirName, nil, path); failed != nil {
		exam.Program = job.Defect{Code: "program", Text: failed.Reason, Remedy: failed.Hint}
		return
	}
	search := pmidetect.Search{Dir: exam.DirName, LibraryPath: m.Libraries}
	verdict := pmidetect.NewDetector(pmidetect.Disk{}).Detect(exam.ProgramPath, search)
	exam.PMIOffer, exam.MPILibrary = verdict.String(), verdict.MPI
}

// homeDefect checks the home directory of the login. It returns the zero Defect if the directory can be used.
func homeDefect(environ []string) job.Defect {
	dir := job.EnvValue(environ, "HOME")
	wrong := func(text, remedy string) job.Defect { return job.Defect{Code: "home", Text: text, Remedy: remedy} }
	const byWhom = "create or mount that directory, or give the account another home directory; getent passwd shows which one it has now"
	info, err := os.Stat(dir)
	switch {
	case dir == "":
		return wrong("HOME is not set", "set HOME in the login environment of the host, or only for ranks with -genv HOME DIR")
	case err != nil:
		return wrong(fmt.Sprintf("cannot use the home directory %s: %v", dir, rank.WithoutPath(err)), byWhom)
	case !info.IsDir():
		return wrong(fmt.Sprintf("the home directory %s is not a directory", dir), byWhom)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return wrong(fmt.Sprintf("cannot write to the home directory %s: %v", dir, err), "check the owner and mode of that directory (ls -ld), and whether its file system is mounted read-only")
	}
	return job.Defect{}
}

// accountDefect looks up the account of the current user as the C library does. It returns the zero Defect if the
// account is found.
func accountDefect(ctx context.Context) job.Defect {
	uid := os.Geteuid()
	if nsswitch.LookupAccount(ctx, lookupTimeout, uid) != (nsswitch.Account{}) {
		return job.Defect{}
	}
	return job.Defect{Code: "account", Text: fmt.Sprintf("the host knows no account with uid %d", uid),
		Remedy: fmt.Sprintf("check the directory service (such as LDAP) with getent passwd %d; some programs need the name of the user", uid)}
}

// claimDirSpace describes the file system that contains the directory of claims. Err is set if this process
// cannot create files in the directory.
func claimDirSpace(dir string) job.FileSystem {
	s := folderSpace(dir)
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); s.Err == "" && err != nil {
		s.Err = err.Error()
	}
	return s
}

// onlineCPUs returns the number of CPUs that are online, or 0 if unknown.
func onlineCPUs(root fs.FS) int {
	cpus, _ := pin.ParseCPUs(probe.ReadLine(root, "sys/devices/system/cpu/online"))
	return len(cpus)
}

// loginLimits returns those resource limits of the login that MPI programs are likely to reach.
func loginLimits(ctx context.Context) []job.Rlimit {
	var all []job.Rlimit
	for _, l := range []struct {
		name, flag string
		resource   int
	}{
		{"open files", "n", unix.RLIMIT_NOFILE},
		{"processes", "u", unix.RLIMIT_NPROC},
		{"locked memory", "l", unix.RLIMIT_MEMLOCK},
		{"stack", "s", unix.RLIMIT_STACK},
		{"virtual memory", "v", unix.RLIMIT_AS},
		{"file size", "f", unix.RLIMIT_FSIZE},
		{"CPU time", "t", unix.RLIMIT_CPU},
	} {
		var r unix.Rlimit
		if unix.Getrlimit(l.resource, &r) != nil {
			continue
		}
		soft := int64(r.Cur) // unlimited is all ones: negative
		if l.resource == unix.RLIMIT_NOFILE {
			soft = openFilesLimit(ctx, soft)
		}
		all = append(all, job.Rlimit{Name: l.name, Flag: l.flag, Soft: soft, Hard: int64(r.Max)})
	}
	return all
}

// openFilesLimit returns the limit on open files that applies to ranks. It asks a child process. Go raises the limit of
// its own process at the start, and restores the original one only for child processes (package os, rlimit.go).
func openFilesLimit(ctx context.Context, ownLimit int64) int64 {
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		return ownLimit
	}
	text := strings.TrimSpace(string(out))
	if text == "unlimited" {
		return -1
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return ownLimit
}

// cgroupLimits returns the limits of the control group in which this process runs.
func cgroupLimits(root fs.FS) job.CgroupLimits {
	memory, processes := proc.CgroupLimits(root)
	return job.CgroupLimits{Memory: memory, Processes: processes}
}

// folderSpace describes the file system that contains path.
func folderSpace(path string) job.FileSystem {
	s := job.FileSystem{Path: path}
	var at unix.Statfs_t
	if err := unix.Statfs(path, &at); err != nil {
		s.Err = err.Error()
		return s
	}
	s.Total, s.Free = int64(at.Blocks)*at.Frsize, int64(at.Bavail)*at.Frsize
	s.NoExec = at.Flags&unix.ST_NOEXEC != 0
	return s
}

// cacheDir returns the directory below which mpiexec stores its own executable on this node. This is
// XDG_CACHE_HOME or, if that is not an absolute path, HOME. It returns "" if neither is an absolute path.
func cacheDir(environ []string) string {
	for _, dir := range []string{job.EnvValue(environ, "XDG_CACHE_HOME"), job.EnvValue(environ, "HOME")} {
		if filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

// rdmaDevice returns the name of an RDMA device of this node, or "" if there is none. Programs that use such
// a device need locked memory.
func rdmaDevice(root fs.FS) string {
	entries, _ := fs.ReadDir(root, "sys/class/infiniband")
	if len(entries) == 0 {
		return ""
	}
	return entries[0].Name()
}

// interfaceOf returns the network interface that has a given address, and its MTU in bytes. name is "" if
// there is none.
func interfaceOf(address string) (name string, mtu int) {
	want, err := netip.ParseAddr(address)
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			prefix, bad := netip.ParsePrefix(a.String())
			if err == nil && bad == nil && prefix.Addr().Unmap() == want.Unmap() {
				return i.Name, i.MTU
			}
		}
	}
	return "", 0
}

// ownName looks up the addresses of the host's own name, as MPI libraries do to find their address. If there
// are none, reason says why.
func ownName(ctx context.Context) (addresses []string, reason string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	host, err := os.Hostname()
	if err != nil {
		return nil, err.Error()
	}
	found := lookupHost(ctx, host)
	if len(found) == 0 {
		return nil, "no address is known for " + host
	}
	for _, a := range found {
		addresses = append(addresses, a.Unmap().String())
	}
	return addresses, ""
}

// lookupHost looks up a name, first in files and name servers, and then with the C library. The first lookup may take
// half of lookupTimeout.
func lookupHost(ctx context.Context, host string) []netip.Addr {
	own, cancel := context.WithTimeout(ctx, lookupTimeout/2)
	defer cancel()
	if found, err := net.DefaultResolver.LookupNetIP(own, "ip", host); err == nil {
		return found
	}
	answer, _ := nsswitch.Getent(ctx, lookupTimeout, "ahosts", host)
	found, _ := nsswitch.ParseHosts(answer)
	return found
}

// sshdLimits returns the settings MaxStartups and MaxSessions of the sshd that has accepted this login. Unknown values
// are 0. MaxStartups is part of the title of sshd's listener process: "sshd: /usr/sbin/sshd -f FILE [listener] 0 of
// 10-100 startups" (OpenSSH sshd.c, since 8.1).
func sshdLimits(root fs.FS) (startups, sessions int) {
	title := sshdListenerTitle(root, os.Getpid())
	if title == "" {
		return 0, 0
	}
	config := readSSHDConfig(root, sshdConfigPath(title))
	startups = maxStartupsOf(title)
	if startups == 0 {
		begin, _, _ := strings.Cut(config["maxstartups"], ":")
		startups, _ = strconv.Atoi(begin)
	}
	sessions, _ = strconv.Atoi(config["maxsessions"])
	return startups, sessions
}

// sshdListenerTitle returns the title of the sshd listener from which a process descends, or "" if there is
// none.
func sshdListenerTitle(root fs.FS, pid int) string {
	title := ""
	for pid > 1 {
		text, _ := fs.ReadFile(root, "proc/"+strconv.Itoa(pid)+"/cmdline")
		line := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
		if strings.HasPrefix(line, "sshd:") && strings.Contains(line, "[listener]") {
			title = line
		}
		pid, _, _ = proc.ParentStateStart(pid)
	}
	return title
}

// maxStartupsOf extracts MaxStartups from the title of an sshd listener. For example, it returns 10 for "0 of
// 10-100 startups". It returns 0 if the title contains no such text.
func maxStartupsOf(title string) int {
	_, rest, found := strings.Cut(title, "[listener] ")
	words := strings.Fields(rest)
	if !found || len(words) < 3 || words[1] != "of" {
		return 0
	}
	begin, _, _ := strings.Cut(words[2], "-")
	n, _ := strconv.Atoi(begin)
	return n
}

// sshdConfigPath returns the configuration file with which an sshd was started, given the title of its
// process.
func sshdConfigPath(title string) string {
	words := strings.Fields(title)
	for i, w := range words {
		if w == "-f" && i+1 < len(words) {
			return words[i+1]
		}
	}
	return "/etc/ssh/sshd_config"
}

// readSSHDConfig reads an sshd_config and the files that it includes. The result is indexed by keyword in
// lower case. If a keyword occurs several times, its first value is used (sshd_config(5)). Files that cannot be
// read are skipped.
func readSSHDConfig(root fs.FS, file string) map[string]string {
	found := make(map[string]string)
	text, _ := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		key := strings.ToLower(words[0])
		if key == "match" { // the rest applies to some logins only
			return found
		}
		if _, known := found[key]; !known && key != "include" {
			found[key] = words[1]
		}
		if key != "include" || !filepath.IsAbs(words[1]) {
			continue
		}
		matches, _ := fs.Glob(root, strings.TrimPrefix(words[1], "/"))
		for _, included := range matches {
			for k, v := range readSSHDConfig(root, included) {
				if _, known := found[k]; !known {
					found[k] = v
				}
			}
		}
	}
	return found
}
