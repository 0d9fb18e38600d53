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

// Bounds below which something is worth a warning. They leave room for what MPICH and
// Open MPI need on a node of ordinary size.
const (
	slowLogin   = 3 * time.Second
	slowShell   = 3 * time.Second
	clockOff    = 2 * time.Second // make and rsync go wrong from here on
	fewFiles    = 1024
	fewProcs    = 512
	smallStack  = 1 << 20
	smallLock   = 64 << 20
	smallShared = 64 << 20 // what a container gets if nobody asks for more; MPICH needs more
	sharedCore  = 16 << 20 // of /dev/shm, for the ranks of each core
	smallTemp   = 64 << 20
	smallMemory = 1 << 30
	startups    = 10 // OpenSSH's default; mpiexec itself opens 8 at once
	sessions    = 2
)

// checks look at one host each, which was reached. Their order is that of the report.
var checks = []func(job.Checkup) []Finding{
	rules, login, shell, noise, clock, account, place, limits, group, shared, disk, mask, server, ledger, labelled,
}

// rules are those of the host's own administrator. That a host runs no jobs is no defect where the cluster file says so, too.
func rules(c job.Checkup) (found []Finding) {
	r := c.Exam.Rules
	switch {
	case r.Faulty:
		found = append(found, of(c, Failure, "node-file", r.Barred, "correct that file; it is root's: ask the administrator of the host"))
	case r.Barred != "" && !c.Said.NoJobs:
		found = append(found, of(c, Failure, "barred", r.Barred, "ask the administrator of the host, or leave it out"))
	}
	for _, text := range r.Warnings {
		found = append(found, of(c, Warning, "node-file", text, "correct the name, or write the number"))
	}
	return found
}

// launching is about the machine from which jobs are launched.
func launching(exam *job.Exam, defects []job.Defect) (found []Finding) {
	if exam != nil {
		c := job.Checkup{Local: true, Exam: *exam}
		found = slices.Concat(account(c), limits(c))
	}
	for _, d := range defects {
		found = append(found, of(job.Checkup{}, Warning, d.Code, d.Text, d.Remedy))
	}
	for i := range found {
		found[i].Hosts = []string{}
	}
	return found
}

// account is that of the login, with its home directory.
func account(c job.Checkup) (found []Finding) {
	for _, d := range []job.Defect{c.Exam.Account, c.Exam.Home} {
		if d.Text != "" {
			found = append(found, of(c, Warning, d.Code, d.Text, d.Remedy))
		}
	}
	return found
}

// claimed is about a host of which other jobs have all CPUs.
func claimed(c job.Checkup) []Finding {
	var busy []int
	whose, alone := "", false
	for _, claim := range c.Page.Claims {
		for _, rank := range claim.Ranks {
			busy = append(busy, rank.CPUs...)
		}
		alone = alone || claim.Exclusive
		if whose == "" {
			whose = fmt.Sprintf("job %s of %s", claim.Job, cmp.Or(claim.User, fmt.Sprint("uid ", claim.UID)))
		}
	}
	free := func(core pin.Core) bool { return !slices.ContainsFunc(core.CPUs, idset.Of(busy...).Has) }
	if whose == "" || !alone && slices.ContainsFunc(c.Probe.Topology.Cores, free) {
		return nil
	}
	if more := len(c.Page.Claims) - 1; more > 0 {
		whose += fmt.Sprintf(" and %d more", more)
	}
	return []Finding{of(c, Warning, "claimed", "other jobs have all of it: "+whose,
		"wait for it with --wait, or see who has what: mpiexec --ps "+c.Node)}
}

// library is about faults that the program's MPI is known for.
func library(c job.Checkup, several bool) (found []Finding) {
	for _, f := range mpifault.Of(c.Exam.Library) {
		level := Note
		switch {
		case f.When == mpifault.AcrossHosts && several:
			level = Warning
		case f.When != mpifault.Spawning && !several:
			continue
		}
		found = append(found, of(c, level, f.Code, "the program "+f.Text(), f.Remedy))
	}
	return found
}

func login(c job.Checkup) []Finding {
	if c.Login < slowLogin {
		return nil
	}
	return []Finding{of(c, Warning, "slow-login", fmt.Sprintf("the login takes longer than %v", slowLogin),
		"see where it waits: ssh -v "+c.Node+" true; often UseDNS in its sshd_config, or a slow home or user database")}
}

func shell(c job.Checkup) []Finding {
	if c.Login == 0 || c.Shell < slowShell { // or it has the login in it
		return nil
	}
	return []Finding{of(c, Warning, "slow-shell", fmt.Sprintf("the login shell takes longer than %v to run a command", slowShell),
		"see what its start-up file does there (~/.bashrc, ~/.cshrc, config.fish, ~/.zshenv): time ssh "+c.Node+" true")}
}

func noise(c job.Checkup) []Finding {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Noise), "\n")
	if line == "" {
		return nil
	}
	if len(line) > 60 {
		line = strings.ToValidUTF8(line[:60], "") + "..."
	}
	return []Finding{of(c, Warning, "login-noise", fmt.Sprintf("the login shell prints text (%q); mpiexec drops it, scp and rsync fail", line),
		"print only in interactive shells: in its ~/.bashrc put it behind  case $- in *i*) ... ;; esac")}
}

// clock allows for the time that question and answer took.
func clock(c job.Checkup) []Finding {
	off := max(c.Skew, -c.Skew) - c.Blur
	if off < clockOff {
		return nil
	}
	way := "ahead of"
	if c.Skew < 0 {
		way = "behind"
	}
	return []Finding{of(c, Warning, "clock", fmt.Sprintf("its clock is %v %s ours", max(c.Skew, -c.Skew).Round(time.Second), way),
		"set it, and keep it by NTP: timedatectl set-ntp true")}
}

// place is about what a job would need there.
func place(c job.Checkup) (found []Finding) {
	for _, d := range []job.Defect{c.Exam.Dir, c.Exam.Program} {
		if d.Text == "" {
			continue
		}
		if d.Remedy == "" {
			d.Remedy = "copy it there, share its file system, or name it by its full path"
		}
		found = append(found, of(c, Failure, d.Code, d.Text, d.Remedy))
	}
	return found
}

// limits are of the login. Ranks inherit them here; on other hosts they get our soft limits
// as far as the hard ones there allow (ENV-8).
func limits(c job.Checkup) (found []Finding) {
	least := map[string]int64{"n": fewFiles, "u": fewProcs, "s": smallStack}
	for _, l := range c.Exam.Limits {
		bound, judged := least[l.Flag]
		if raised(c, l) {
			l.Soft = l.Hard
		}
		switch {
		case l.Soft < 0:
		case judged && l.Soft < bound:
			found = append(found, limit(c, l, fmt.Sprintf("at least %d", amount(l.Flag, bound))))
		case l.Flag == "l" && c.Exam.Fabric != "" && l.Soft < smallLock:
			found = append(found, limit(c, l, "unlimited, for "+c.Exam.Fabric))
		case l.Flag == "v" || l.Flag == "f" || l.Flag == "t":
			found = append(found, limit(c, l, "unlimited"))
		}
	}
	return found
}

// raised reports whether ranks have our limit, as far as the hard one allows. That of
// processes counts those of the user on the host, so it stays what it is there.
func raised(c job.Checkup, l job.Limit) bool { return !c.Local && l.Flag != "u" }

func limit(c job.Checkup, l job.Limit, better string) Finding {
	unit := map[string]string{"s": " KiB", "l": " KiB", "v": " KiB", "f": " KiB", "t": " s"}[l.Flag]
	which := "-"
	if raised(c, l) {
		which = "-H"
	}
	remedy := "raise it in its /etc/security/limits.conf, or where its sshd is started: "
	if c.Local {
		remedy = "raise it in /etc/security/limits.conf, or with ulimit -" + l.Flag + " where mpiexec is started: "
	}
	return of(c, Warning, "limit", fmt.Sprintf("a login may have only %d%s of %s (ulimit %s%s)", amount(l.Flag, l.Soft), unit, l.Name, which, l.Flag), remedy+better)
}

// amount is a limit in the unit of ulimit: KiB for sizes.
func amount(flag string, soft int64) int64 {
	if strings.Contains("slvf", flag) {
		return soft >> 10
	}
	return soft
}

func group(c job.Checkup) (found []Finding) {
	g := c.Exam.Group
	if g.Processes >= 0 && g.Processes < fewProcs {
		found = append(found, of(c, Warning, "cgroup", fmt.Sprintf("its control group allows %d processes only (pids.max)", g.Processes),
			"raise TasksMax of the user's slice, or --pids-limit of the container"))
	}
	if quota := c.Probe.Quota; quota > 0 && quota < len(c.Probe.Topology.Cores) {
		found = append(found, of(c, Warning, "cpu-quota", fmt.Sprintf("its control group may use %d of %d cores at a time (cpu.max); so many slots count", quota, len(c.Probe.Topology.Cores)),
			"raise CPUQuota of the user's slice, or --cpus of the container"))
	}
	if g.Memory >= 0 && g.Memory < smallMemory {
		found = append(found, of(c, Warning, "cgroup", fmt.Sprintf("its control group allows %s of memory only (memory.max)", text.Size(g.Memory)),
			"raise MemoryMax of the user's slice, or --memory of the container"))
	}
	return found
}

// shared is /dev/shm, through which ranks of one node talk.
func shared(c job.Checkup) []Finding {
	s := c.Exam.Shared
	need := int64(len(c.Probe.Topology.Cores)) * sharedCore
	remedy := "make it larger: mount -o remount,size=50% /dev/shm, or --shm-size for a container"
	switch {
	case s.Err != "":
		return []Finding{of(c, Failure, "dev-shm", "/dev/shm: "+s.Err, "mount a tmpfs there: ranks of one node talk through it")}
	case s.Total <= smallShared:
		return []Finding{of(c, Warning, "dev-shm", fmt.Sprintf("/dev/shm has %s in all; ranks of one node talk through it", text.Size(s.Total)), remedy)}
	case s.Free < max(need, smallShared):
		return []Finding{of(c, Warning, "dev-shm", fmt.Sprintf("/dev/shm has %s left", text.Size(s.Free)), "remove what dead programs left there: ls -l /dev/shm; or "+remedy)}
	}
	return nil
}

func disk(c job.Checkup) (found []Finding) {
	for _, s := range append(slices.Clone(c.Exam.Folders), c.Exam.Ledger) {
		if s.Err != "" || s.Free >= smallTemp || s.Total == 0 {
			continue
		}
		found = append(found, of(c, Warning, "disk-full", fmt.Sprintf("%s has %s left", s.Path, text.Size(s.Free)), "make room there"))
	}
	for _, s := range c.Exam.Folders {
		if s.NoExec {
			found = append(found, of(c, Note, "noexec", fmt.Sprintf("no program can be run from %s (it is mounted noexec)", s.Path), "keep programs elsewhere; --stage finds a place"))
		}
	}
	return found
}

// mask is the CPU mask or cpuset of the login, which bounds every rank (PLACE-5).
func mask(c job.Checkup) []Finding {
	usable := 0
	for _, core := range c.Probe.Topology.Cores {
		usable += len(core.CPUs)
	}
	if usable == 0 || usable >= c.Exam.Online {
		return nil
	}
	return []Finding{of(c, Warning, "cpu-mask", fmt.Sprintf("a login may use %d of %d CPUs", usable, c.Exam.Online),
		"see what narrows it: taskset -pc $$ there; a cpuset of the user's slice or container, or the mask of its sshd")}
}

// server is about sshd: many connections at once, and several sessions in one.
func server(c job.Checkup) (found []Finding) {
	e := c.Exam
	if e.MaxStartups > 0 && e.MaxStartups < startups {
		found = append(found, of(c, Warning, "max-startups", fmt.Sprintf("its sshd drops logins when %d are under way (MaxStartups)", e.MaxStartups),
			fmt.Sprintf("raise MaxStartups in its sshd_config to %d or more", startups)))
	}
	if e.MaxSessions > 0 && e.MaxSessions < sessions {
		found = append(found, of(c, Warning, "max-sessions", fmt.Sprintf("its sshd allows %d session in a connection (MaxSessions)", e.MaxSessions),
			"raise MaxSessions in its sshd_config, if you share connections (ControlMaster)"))
	}
	return found
}

func ledger(c job.Checkup) []Finding {
	switch {
	case c.Page.Err != "":
		return []Finding{of(c, Warning, "ledger", "not kept apart from other jobs: "+c.Page.Err,
			"make the directory sticky, writable for all and root's, or name another: --ledger DIR")}
	case c.Exam.Ledger.Err != "":
		return []Finding{of(c, Warning, "ledger", fmt.Sprintf("not kept apart from other jobs: claims in %s: %s", c.Exam.Ledger.Path, c.Exam.Ledger.Err),
			"let all users make files in that directory, or name another: --ledger DIR")}
	case c.Page.Notice != "":
		return []Finding{of(c, Warning, "ledger", c.Page.Notice, "remove that, or ask its user to: until then other jobs may use the CPUs of his")}
	}
	return nil
}

// names is about the host's own name and address, which matter to other hosts.
func names(c job.Checkup) []Finding {
	remedy := "give its name its address on the network, in its /etc/hosts"
	if c.Exam.Address != "" && !loopback(c.Exam.Address) {
		remedy = fmt.Sprintf("give it in its /etc/hosts: %s %s", c.Exam.Address, c.Probe.Hostname)
	}
	switch {
	case loopback(c.Exam.Address) && !c.Local:
		return []Finding{of(c, Warning, "loopback", "the name leads to the loopback address "+c.Exam.Address+" here, which other hosts do not reach",
			"give it its address on the network, in /etc/hosts or as HostName in the configuration of ssh")}
	case c.Exam.NameErr != "":
		return []Finding{of(c, Warning, "own-name", "its own name leads nowhere there: "+c.Exam.NameErr, remedy)}
	case len(c.Exam.OwnName) > 0 && !slices.ContainsFunc(c.Exam.OwnName, func(a string) bool { return !loopback(a) }):
		return []Finding{of(c, Warning, "own-name", fmt.Sprintf("its own name leads to %s there; some MPI libraries tell that to their peers", c.Exam.OwnName[0]), remedy)}
	}
	return nil
}

func loopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback()
}
