package request

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/job"
	"remshell/pin"
	"remshell/usererr"
)

// A Starter is a batch system whose program starts helpers on the nodes of the batch job (rule RM-30).
type Starter struct {
	System     *batch.System // nil: hosts are reached by ssh or by the user's launcher
	Job        string        // the batch system's ID of the job
	Attach     bool          // hosts are reached by ssh, and System.Attach makes the shells there part of the job
	ByName     bool          // -launcher names it, so there is no fallback
	MaxGrace   time.Duration // longest time between SIGTERM and SIGKILL before the batch system kills; 0: no bound
	OneStep    bool          // one call starts helpers on several hosts, on all if possible
	allocation *batch.Allocation
}

// FindStarter returns the starter of the batch system in whose job mpiexec runs. The zero Starter means that
// there is none, or that the user wants another launcher. A starter that was never tested with a real batch
// system is used only if the user requests it. Inside a rank of another mpiexec, no starter is used (rule
// RM-2).
func (w Inputs) FindStarter(j option.JobOptions) (Starter, error) {
	asked := batch.ByLauncher(j.Launcher)
	outer, _ := w.lookupEnv("MPIEXEC_JOBID")
	if asked == nil && (j.Launcher != "" && j.Launcher != "auto" || len(j.LauncherExec) > 0 || j.RMK == "none" || j.RMK == "user" || outer != "") {
		return Starter{}, nil
	}
	system, number := batch.Inside(w.allocInputs())
	attach := asked != nil && asked.Attach != nil && j.Launcher == asked.Attach.Program
	switch {
	case asked != nil && asked != system, attach && !attachable(number), asked != nil && !attach && !w.hasSecret(asked.Starter):
		return Starter{}, &usererr.Error{Text: fmt.Sprintf("-launcher %s: mpiexec does not run inside a job of %s", j.Launcher, asked.Title), Remedy: asked.Within + ", or use -launcher ssh"}
	case attach:
		return Starter{System: asked, Job: number, Attach: true, ByName: true}, nil
	case system == nil, system.Starter == nil, system.Untried && asked == nil, !w.hasSecret(system.Starter):
		return Starter{}, nil
	}
	given := w.Allocation
	if given == nil || given.System != system.Name { // the user names hosts
		whole, err := batch.Read(system.Name, w.allocInputs(), batch.Options{})
		if err != nil {
			return Starter{}, err
		}
		given = &whole
	}
	return Starter{System: system, Job: number, ByName: asked != nil, allocation: given}, nil
}

// hasSecret reports whether mpiexec has the secret that is needed for a starter that passes no input to
// helpers (rule RM-38).
func (w Inputs) hasSecret(s *batch.Starter) bool {
	if s.Secret == "" {
		return true
	}
	value, _ := w.lookupEnv(s.Secret)
	return value != ""
}

// attachable reports whether the ID of a batch job can be an argument of a command. It must not be empty, longer than
// 256 bytes, or begin with "-".
func attachable(number string) bool {
	const most = 256
	return number != "" && len(number) <= most && number[0] != '-'
}

// BatchJob returns the batch system in whose job mpiexec runs, and the batch system's ID of that job. system is nil if
// mpiexec does not run in a batch job.
func (w Inputs) BatchJob() (system *batch.System, number string) {
	return batch.Inside(w.allocInputs())
}

// Use changes a request so that its hosts are reached by the batch system's program. The zero Starter changes
// nothing.
func (s Starter) Use(req *job.Request) {
	if s.System == nil {
		return
	}
	if s.System.Starter.AlsoLocal {
		treatLocalAsRemote(req)
	}
	for i := range req.Nodes { // the batch system confines what it starts
		if n := &req.Nodes[i]; !n.Local {
			n.GrantedCPUs, n.GrantedGPUs = pin.CPUGrant{}, ""
		}
	}
	if req.RM == nil { // the user names hosts of the job
		req.RM = rmOf(s.allocation)
	}
	req.RM.Starter, req.RM.Integration = s.System.Starter.Program, job.TightIntegration
	if s.MaxGrace > 0 {
		req.TimeLimits.Grace = min(req.TimeLimits.Grace, s.MaxGrace)
	}
}

// These are the times that LimitGrace uses (rule RM-62). If a job's grace period is longer than defaultKillGrace,
// mpiexec asks the batch system for the time between its SIGTERM and SIGKILL. mpiexec needs the last killMargin of
// that time for its report.
const (
	defaultKillGrace = 25 * time.Second
	killMargin       = 3 * time.Second
)

// LimitGrace limits the time between SIGTERM and SIGKILL to the time that the batch system allows before it kills
// ranks and mpiexec. The batch system's time is userDelay (--batch-option kill-delay=), or else the time that the
// batch system reports, or else its documented default. A userDelay of 0 means that the option is not given.
// LimitGrace asks the batch system, by calling run, only if the request has a long grace period. It returns the
// limit, or 0 if there is none.
func LimitGrace(req *job.Request, userDelay time.Duration, run batch.Run) (time.Duration, error) {
	wait := userDelay
	switch {
	case req.RM == nil && userDelay > 0:
		return 0, &usererr.Error{Text: "--batch-option kill-delay=TIME works only in a job of a batch system", Remedy: "use --kill-grace, or leave out kill-delay=TIME"}
	case req.RM == nil:
		return 0, nil
	case userDelay > 0:
	default:
		wait = killDelay(batch.Named(req.RM.Name), req.TimeLimits.Grace, run)
	}
	if wait == 0 {
		return 0, nil
	}
	most := max(wait-killMargin, time.Second)
	req.TimeLimits.Grace = min(req.TimeLimits.Grace, most)
	return most, nil
}

// killDelay returns the batch system's time between SIGTERM and SIGKILL, or 0 if it is unknown. It asks the batch
// system, by calling run, only if wantedDelay is more than defaultKillGrace.
func killDelay(s *batch.System, wantedDelay time.Duration, run batch.Run) time.Duration {
	switch {
	case s == nil: // the hosts are those of a file
		return 0
	case s.KillWait != nil && wantedDelay > defaultKillGrace:
		return s.KillWait(run)
	}
	return s.KillDelay
}

// treatLocalAsRemote makes the request reach this machine in the same way as all other hosts.
func treatLocalAsRemote(req *job.Request) {
	for _, nodes := range [][]job.NodeDef{req.Nodes, req.Queue.StandbyHosts, req.SpawnHosts.List} {
		for i := range nodes {
			nodes[i].Local = false
		}
	}
	if req.Queue.Host != nil {
		req.Queue.Host.Local = false
	}
}

// FindHost returns a Call for a host, in which only the batch system's name for the host and the host's position in the
// batch job are set. ok is false if the job does not contain the host.
func (s Starter) FindHost(host string) (call batch.Call, ok bool) {
	found, ok := findAllocated(s.allocation, host)
	call = batch.Call{Host: found.Name, Part: -1, Rank: found.Rank}
	if slices.ContainsFunc(s.allocation.Hosts, func(h batch.Host) bool { return h.Group > 0 }) {
		call.Part = found.Group
	}
	return call, ok
}

// findAllocated finds a host in an allocation by name. If only one of two names has a domain, the domain is
// ignored.
func findAllocated(allocation *batch.Allocation, host string) (batch.Host, bool) {
	i := slices.IndexFunc(allocation.Hosts, func(have batch.Host) bool {
		short, _, long := strings.Cut(have.Name, ".")
		asked, _, qualified := strings.Cut(host, ".")
		return strings.EqualFold(have.Name, host) || long != qualified && strings.EqualFold(short, asked)
	})
	if i < 0 {
		return batch.Host{}, false
	}
	return allocation.Hosts[i], true
}

// Logins returns a function that says how to log in to the SSH server that was started on a host for this batch job.
// found is false if no server was started on the host. Logins returns nil if no such servers were started at all.
func (w Inputs) Logins(j option.JobOptions) func(host string) (login batch.Login, found bool) {
	given := w.sshAllocation(j.RMK)
	if given == nil {
		return nil
	}
	return func(host string) (batch.Login, bool) {
		found, held := findAllocated(given, host)
		return found.Login, held
	}
}

// sshAllocation returns the hosts on which SSH servers were started for the batch job, even if the user names only
// some of these hosts. It returns nil if there are no such hosts, if they cannot be read, or if mpiexec runs inside a
// rank (rule RM-2).
func (w Inputs) sshAllocation(rmk string) *batch.Allocation {
	given := w.Allocation
	if given == nil {
		system, _ := batch.Inside(w.allocInputs())
		outer, _ := w.lookupEnv("MPIEXEC_JOBID")
		if system == nil || !system.Logins || outer != "" || rmk == "none" || rmk == "user" {
			return nil
		}
		all, err := batch.Read(system.Name, w.allocInputs(), batch.Options{})
		if err != nil {
			return nil
		}
		given = &all
	}
	if !slices.ContainsFunc(given.Hosts, batch.Host.HasLogin) {
		return nil
	}
	return given
}
