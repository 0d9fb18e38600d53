package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"remshell/idset"
	"remshell/job"
	"remshell/mpifault"
	"remshell/pin"
	"remshell/text"
)

// --doctor warns about a value that is above one of the max constants or below one of the min constants. Most min
// constants are far higher than what MPICH and Open MPI need on a node of ordinary size.
const (
	maxLoginTime    = 3 * time.Second
	maxShellTime    = 3 * time.Second
	maxClockSkew    = 2 * time.Second // make and rsync fail beyond this
	minFiles        = 1024
	minProcs        = 512
	minStack        = 1 << 20
	minMemLock      = 64 << 20
	minDevShm       = 64 << 20 // Docker's default; MPICH needs more
	devShmPerCore   = 16 << 20 // /dev/shm for the ranks of one core
	minTemp         = 64 << 20
	minCgroupMemory = 1 << 30
	minMaxStartups  = 10 // OpenSSH's default; mpiexec itself opens 8 at once
	minMaxSessions  = 2
)

// checks lists the checks that are made for each host to which mpiexec could connect, in the order of the report.
var checks = []func(job.HostDiagnosis) []Finding{
	checkAdminRules, checkLogin, checkShell, checkLoginOutput, checkClock, checkAccount, checkDirAndProgram, checkLimits, checkCgroup, checkDevShm, checkDisks, checkCPUMask, checkSSHServer, checkLedger, checkAttributes,
}

// checkAdminRules reports rules of the node's administrator that forbid jobs, and warnings about the files with these
// rules. If the cluster file also says that the node runs no jobs, only a drained node or an invalid file is reported
// as a failure.
func checkAdminRules(c job.HostDiagnosis) (found []Finding) {
	r := c.Diagnosis.Rules
	switch {
	case r.FileFault:
		found = append(found, newFinding(c, Failure, "node-file", r.Forbidden, "ask the administrator of the host to correct that file, which belongs to root"))
	case r.Drained:
		found = append(found, newFinding(c, Failure, "barred", r.Forbidden, "do not use this host, or ask root to run: mpijob undrain root@HOST"))
	case r.Forbidden != "" && !c.ClusterPolicy.NoJobs:
		found = append(found, newFinding(c, Failure, "barred", r.Forbidden, "ask the administrator of the host, or do not use this host"))
	}
	for _, text := range r.Warnings {
		found = append(found, newFinding(c, Warning, "node-file", text, "correct the name of the user or group, or use the numeric ID"))
	}
	return found
}

// checkLaunchingHost checks the machine on which mpiexec runs. diagnosis is nil if that machine was not diagnosed.
// defects are problems of that machine that were found in another way.
func checkLaunchingHost(diagnosis *job.NodeDiagnosis, defects []job.Defect) (found []Finding) {
	if diagnosis != nil {
		c := job.HostDiagnosis{Local: true, Diagnosis: *diagnosis}
		found = slices.Concat(checkAccount(c), checkLimits(c))
	}
	for _, d := range defects {
		found = append(found, newFinding(job.HostDiagnosis{}, Warning, d.Code, d.Text, d.Remedy))
	}
	for i := range found {
		found[i].Hosts = []string{}
	}
	return found
}

// checkAccount checks the user's account and home directory.
func checkAccount(c job.HostDiagnosis) (found []Finding) {
	for _, d := range []job.Defect{c.Diagnosis.Account, c.Diagnosis.Home} {
		if d.Text != "" {
			found = append(found, newFinding(c, Warning, d.Code, d.Text, d.Remedy))
		}
	}
	return found
}

// checkClaimed reports a host if other jobs have claimed CPUs of every core, or if one of them has exclusive use of
// the host.
func checkClaimed(c job.HostDiagnosis) []Finding {
	var busy []int
	owner, exclusive := "", false
	for _, claim := range c.Ledger.Claims {
		for _, rank := range claim.Ranks {
			busy = append(busy, rank.CPUs...)
		}
		exclusive = exclusive || claim.Exclusive
		if owner == "" {
			owner = fmt.Sprintf("job %s of %s", claim.Job, cmp.Or(claim.User, fmt.Sprint("uid ", claim.UID)))
		}
	}
	free := func(core pin.Core) bool { return !slices.ContainsFunc(core.CPUs, idset.New(busy...).Has) }
	if owner == "" || !exclusive && slices.ContainsFunc(c.Probe.Topology.Cores, free) {
		return nil
	}
	if more := len(c.Ledger.Claims) - 1; more > 0 {
		owner += fmt.Sprintf(" and %d more", more)
	}
	return []Finding{newFinding(c, Warning, "claimed", "other jobs use all CPUs of the host: "+owner,
		"wait with --wait, or list the jobs on the host: mpiexec --ps "+c.Node)}
}

// checkMPILibrary reports known bugs of the program's MPI library. manyHosts is true if the job has more than
// one host.
func checkMPILibrary(c job.HostDiagnosis, manyHosts bool) (found []Finding) {
	for _, f := range mpifault.FaultsOf(c.Diagnosis.MPILibrary) {
		level := Note
		switch {
		case f.When == mpifault.AcrossHosts && manyHosts:
			level = Warning
		case f.When != mpifault.Spawning && !manyHosts:
			continue
		}
		found = append(found, newFinding(c, level, f.Code, f.Text("the program"), f.Remedy))
	}
	return found
}

func checkLogin(c job.HostDiagnosis) []Finding {
	if c.Login < maxLoginTime {
		return nil
	}
	return []Finding{newFinding(c, Warning, "slow-login", fmt.Sprintf("the login takes longer than %v", maxLoginTime),
		"to find the slow step, run \"ssh -v "+c.Node+" true\"; frequent causes are UseDNS in sshd_config, a slow home folder, and a slow directory service (LDAP)")}
}

func checkShell(c job.HostDiagnosis) []Finding {
	if c.Login == 0 || c.Shell < maxShellTime { // not measured, or measured together with the login
		return nil
	}
	return []Finding{newFinding(c, Warning, "slow-shell", fmt.Sprintf("the login shell takes longer than %v to run a command", maxShellTime),
		"to measure the time, run \"time ssh "+c.Node+" true\"; check the start-up file of the shell (~/.bashrc, ~/.cshrc, config.fish, ~/.zshenv)")}
}

func checkLoginOutput(c job.HostDiagnosis) []Finding {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Noise), "\n")
	if line == "" {
		return nil
	}
	if len(line) > 60 {
		line = strings.ToValidUTF8(line[:60], "") + "..."
	}
	return []Finding{newFinding(c, Warning, "login-noise", fmt.Sprintf("the login shell prints text (%q); mpiexec ignores it, but scp and rsync fail", line),
		"print only in interactive shells: in ~/.bashrc, put the output inside: case $- in *i*) ... ;; esac")}
}

// checkClock compares the host's clock with the clock of this machine. It allows for the time between the request
// and its reply.
func checkClock(c job.HostDiagnosis) []Finding {
	off := max(c.Skew, -c.Skew) - c.SkewError
	if off < maxClockSkew {
		return nil
	}
	offset := max(c.Skew, -c.Skew).Round(time.Second).String()
	text := "the clock of the host is " + offset + " ahead of the clock of this machine"
	if c.Skew < 0 {
		text = "the clock of the host is " + offset + " behind the clock of this machine"
	}
	return []Finding{newFinding(c, Warning, "clock", text,
		"set the clock, and synchronize it by NTP: timedatectl set-ntp true")}
}

// checkDirAndProgram checks the working directory and the program of the job.
func checkDirAndProgram(c job.HostDiagnosis) (found []Finding) {
	for _, d := range []job.Defect{c.Diagnosis.Dir, c.Diagnosis.Program} {
		if d.Text == "" {
			continue
		}
		if d.Remedy == "" {
			d.Remedy = "copy the program to the host, share its file system, or give its full path"
		}
		found = append(found, newFinding(c, Failure, d.Code, d.Text, d.Remedy))
	}
	return found
}

// checkLimits checks the resource limits of a login. Ranks on this machine inherit these limits. Ranks on other
// hosts get this machine's soft limits, up to the hard limits of their host (rule ENV-8).
func checkLimits(c job.HostDiagnosis) (found []Finding) {
	least := map[string]int64{"n": minFiles, "u": minProcs, "s": minStack}
	for _, l := range c.Diagnosis.Limits {
		bound, judged := least[l.Flag]
		if ranksGetOurLimit(c, l) {
			l.Soft = l.Hard
		}
		switch {
		case l.Soft < 0:
		case judged && l.Soft < bound:
			found = append(found, limitFinding(c, l, fmt.Sprintf("at least %d", inUlimitUnit(l.Flag, bound))))
		case l.Flag == "l" && c.Diagnosis.Fabric != "" && l.Soft < minMemLock:
			found = append(found, limitFinding(c, l, "unlimited, for "+c.Diagnosis.Fabric))
		case l.Flag == "v" || l.Flag == "f" || l.Flag == "t":
			found = append(found, limitFinding(c, l, "unlimited"))
		}
	}
	return found
}

// ranksGetOurLimit reports whether mpiexec sets this machine's soft limit for ranks on the host, up to the host's
// hard limit. mpiexec never sets the limit on the number of processes, because the kernel applies that limit to all
// processes of the user on the host together.
func ranksGetOurLimit(c job.HostDiagnosis, l job.Rlimit) bool { return !c.Local && l.Flag != "u" }

func limitFinding(c job.HostDiagnosis, l job.Rlimit, advised string) Finding {
	unit := map[string]string{"s": " KiB", "l": " KiB", "v": " KiB", "f": " KiB", "t": " s"}[l.Flag]
	command := "ulimit -" + l.Flag
	if ranksGetOurLimit(c, l) {
		command = "ulimit -H" + l.Flag
	}
	remedy := "raise the limit in /etc/security/limits.conf on the host, or in the service that starts its sshd, to: "
	if c.Local {
		remedy = "raise the limit in /etc/security/limits.conf, or with ulimit -" + l.Flag + " before you start mpiexec, to: "
	}
	return newFinding(c, Warning, "limit", fmt.Sprintf("a login has a limit of only %d%s for %s (%s)", inUlimitUnit(l.Flag, l.Soft), unit, l.Name, command), remedy+advised)
}

// inUlimitUnit converts a limit to the unit in which the shell's ulimit prints it, which is KiB for sizes.
func inUlimitUnit(flag string, limit int64) int64 {
	if strings.Contains("slvf", flag) {
		return limit >> 10
	}
	return limit
}

func checkCgroup(c job.HostDiagnosis) (found []Finding) {
	g := c.Diagnosis.Cgroup
	if g.Processes >= 0 && g.Processes < minProcs {
		found = append(found, newFinding(c, Warning, "cgroup", fmt.Sprintf("the control group of the login allows only %d processes (pids.max)", g.Processes),
			"raise TasksMax of the user's slice, or --pids-limit of the container"))
	}
	if quota := c.Probe.CPUQuota; quota > 0 && quota < len(c.Probe.Topology.Cores) {
		found = append(found, newFinding(c, Warning, "cpu-quota", fmt.Sprintf("the control group of the login may use only %d of %d cores at a time (cpu.max), so the host has %s", quota, len(c.Probe.Topology.Cores), text.Count(quota, "slot")),
			"raise CPUQuota of the user's slice, or --cpus of the container"))
	}
	if g.Memory >= 0 && g.Memory < minCgroupMemory {
		found = append(found, newFinding(c, Warning, "cgroup", fmt.Sprintf("the control group of the login allows only %s of memory (memory.max)", text.FormatBytes(g.Memory)),
			"raise MemoryMax of the user's slice, or --memory of the container"))
	}
	return found
}

// checkDevShm checks /dev/shm, through which ranks of one node communicate.
func checkDevShm(c job.HostDiagnosis) []Finding {
	s := c.Diagnosis.DevShm
	need := int64(len(c.Probe.Topology.Cores)) * devShmPerCore
	remedy := "make it larger: mount -o remount,size=50% /dev/shm, or --shm-size for a container"
	switch {
	case s.Err != "":
		return []Finding{newFinding(c, Failure, "dev-shm", "/dev/shm: "+s.Err, "mount a tmpfs at /dev/shm: ranks on the same node communicate through it")}
	case s.Total <= minDevShm:
		return []Finding{newFinding(c, Warning, "dev-shm", fmt.Sprintf("/dev/shm has a size of only %s; ranks on the same node communicate through it", text.FormatBytes(s.Total)), remedy)}
	case s.Free < max(need, minDevShm):
		return []Finding{newFinding(c, Warning, "dev-shm", fmt.Sprintf("/dev/shm has only %s of free space", text.FormatBytes(s.Free)), "remove files of programs that have ended (ls -l /dev/shm), or "+remedy)}
	}
	return nil
}

func checkDisks(c job.HostDiagnosis) (found []Finding) {
	for _, s := range append(slices.Clone(c.Diagnosis.TempDirs), c.Diagnosis.Ledger) {
		if s.Err != "" || s.Free >= minTemp || s.Total == 0 {
			continue
		}
		found = append(found, newFinding(c, Warning, "disk-full", fmt.Sprintf("%s has only %s of free space", s.Path, text.FormatBytes(s.Free)), "free space on that file system"))
	}
	for _, s := range c.Diagnosis.TempDirs {
		if s.NoExec {
			found = append(found, newFinding(c, Note, "noexec", fmt.Sprintf("programs in %s cannot run, because it is mounted noexec", s.Path), "store programs in another folder; --stage chooses a suitable folder"))
		}
	}
	return found
}

// checkCPUMask checks the CPU mask or cpuset of the login, which limits all ranks (rule PLACE-5).
func checkCPUMask(c job.HostDiagnosis) []Finding {
	usable := 0
	for _, core := range c.Probe.Topology.Cores {
		usable += len(core.CPUs)
	}
	if usable == 0 || usable >= c.Diagnosis.Online {
		return nil
	}
	return []Finding{newFinding(c, Warning, "cpu-mask", fmt.Sprintf("a login may use only %d of %d CPUs", usable, c.Diagnosis.Online),
		"to see the CPUs of a login, run \"taskset -pc $$\" on the host; possible causes are a cpuset of the user's slice or container, and the CPU mask of sshd")}
}

// checkSSHServer checks sshd's limits on concurrent logins and on sessions per connection.
func checkSSHServer(c job.HostDiagnosis) (found []Finding) {
	e := c.Diagnosis
	if e.MaxStartups > 0 && e.MaxStartups < minMaxStartups {
		found = append(found, newFinding(c, Warning, "max-startups", fmt.Sprintf("sshd on the host drops logins if there are more than %d at the same time (MaxStartups)", e.MaxStartups),
			fmt.Sprintf("raise MaxStartups in sshd_config on the host to %d or more", minMaxStartups)))
	}
	if e.MaxSessions > 0 && e.MaxSessions < minMaxSessions {
		found = append(found, newFinding(c, Warning, "max-sessions", fmt.Sprintf("sshd on the host allows only %d session for each connection (MaxSessions)", e.MaxSessions),
			"if you share connections (ControlMaster), raise MaxSessions in sshd_config on the host"))
	}
	return found
}

func checkLedger(c job.HostDiagnosis) []Finding {
	switch {
	case c.Ledger.Err != "":
		return []Finding{newFinding(c, Warning, "ledger", "other jobs may use the same CPUs: "+c.Ledger.Err,
			"make root the owner of the directory and set its mode to 1777, or use another directory with --ledger DIR")}
	case c.Diagnosis.Ledger.Err != "":
		return []Finding{newFinding(c, Warning, "ledger", fmt.Sprintf("other jobs may use the same CPUs: cannot use the claims in %s: %s", c.Diagnosis.Ledger.Path, c.Diagnosis.Ledger.Err),
			"allow all users to create files in that directory, or use another directory with --ledger DIR")}
	case c.Ledger.Notice != "":
		return []Finding{newFinding(c, Warning, "ledger", c.Ledger.Notice, "remove the file, or ask its user to remove it; until then, other jobs may use the CPUs of this user's jobs")}
	}
	return nil
}

// checkHostName checks the host's own name and address, which other hosts may need to connect to the host.
func checkHostName(c job.HostDiagnosis) []Finding {
	remedy := "correct /etc/hosts on the host, so that the name of the host has its network address there"
	if c.Diagnosis.Address != "" && !isLoopback(c.Diagnosis.Address) {
		remedy = fmt.Sprintf("on the host, add this line to /etc/hosts: %s %s", c.Diagnosis.Address, c.Probe.Hostname)
	}
	switch {
	case isLoopback(c.Diagnosis.Address) && !c.Local:
		return []Finding{newFinding(c, Warning, "loopback", "on this machine, the name of the host has the loopback address "+c.Diagnosis.Address+", which other hosts cannot reach",
			"set its network address in /etc/hosts, or as HostName in the ssh configuration")}
	case c.Diagnosis.OwnNameErr != "":
		return []Finding{newFinding(c, Warning, "own-name", "the host cannot resolve its own name: "+c.Diagnosis.OwnNameErr, remedy)}
	case len(c.Diagnosis.OwnAddresses) > 0 && !slices.ContainsFunc(c.Diagnosis.OwnAddresses, func(a string) bool { return !isLoopback(a) }):
		return []Finding{newFinding(c, Warning, "own-name", fmt.Sprintf("on the host, its own name has the address %s; some MPI libraries use this address to connect ranks", c.Diagnosis.OwnAddresses[0]), remedy)}
	}
	return nil
}

func isLoopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback()
}
