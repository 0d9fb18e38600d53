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

// A Starter is a batch system that starts our helpers on the nodes of its job (RM-30).
type Starter struct {
	System     *batch.System // nil: hosts are reached by ssh or as the user said
	Job        string        // its number
	ByName     bool          // by name: then there is no other way
	MaxGrace   time.Duration // between SIGTERM and SIGKILL, before the batch system kills; 0: as wanted
	OneStep    bool          // it is called once for all hosts, or as many as go together
	allocation *batch.Allocation
}

// FindStarter is that of the batch system in whose job we are, if it has one that we know and the user
// wants no other. One that nobody has tried has to be asked for. A launch from inside of a rank does not look (RM-2).
func (w Inputs) FindStarter(j option.JobOptions) (Starter, error) {
	asked := batch.ByLauncher(j.Launcher)
	outer, _ := w.lookupEnv("MPIEXEC_JOBID")
	if asked == nil && (j.Launcher != "" && j.Launcher != "auto" || len(j.LauncherExec) > 0 || j.RMK == "none" || j.RMK == "user" || outer != "") {
		return Starter{}, nil
	}
	system, number := batch.Inside(w.allocInputs())
	switch {
	case asked != nil && asked != system, asked != nil && asked.Attach != nil && !attachable(number):
		return Starter{}, &usererr.Error{Text: fmt.Sprintf("-launcher %s: this is no job of %s's", j.Launcher, asked.Title), Remedy: asked.Within + "; or use -launcher ssh"}
	case asked != nil && asked.Attach != nil:
		return Starter{System: asked, Job: number, ByName: true}, nil
	case system == nil, system.Starter == nil, system.Untried && asked == nil:
		return Starter{}, nil
	}
	given := w.Allocation
	if given == nil || given.System != system.Name { // the user names hosts
		whole, err := batch.Read(system.Name, w.allocInputs(), batch.Wish{})
		if err != nil {
			return Starter{}, err
		}
		given = &whole
	}
	return Starter{System: system, Job: number, ByName: asked != nil, allocation: given}, nil
}

// attachable reports whether the number of a job may be sent to each host, for the program there that attaches processes to it.
func attachable(number string) bool {
	const most = 256
	return number != "" && len(number) <= most && number[0] != '-'
}

// BatchJob finds the batch system in whose job we are, and its number of the job; nil: we are in none.
func (w Inputs) BatchJob() (system *batch.System, number string) {
	return batch.Inside(w.allocInputs())
}

// Use makes a request one whose hosts are reached by the starter, if there is one.
func (s Starter) Use(req *job.Request) {
	if s.System == nil {
		return
	}
	if s.System.Starter.Here {
		treatLocalAsRemote(req)
	}
	for i := range req.Nodes { // what the batch system starts, it has confined
		if n := &req.Nodes[i]; !n.Local {
			n.GrantedCPUs, n.GrantedGPUs = pin.CPUGrant{}, ""
		}
	}
	if req.RM == nil { // the user has named hosts of it
		req.RM = rmOf(s.allocation)
	}
	req.RM.Starter, req.RM.Integration = s.System.Starter.Program, job.TightIntegration
	if s.MaxGrace > 0 {
		req.TimeLimits.Grace = min(req.TimeLimits.Grace, s.MaxGrace)
	}
}

// Times of the end of a batch system's job (RM-62): it is asked for its own if more than usualGrace is
// wanted between SIGTERM and SIGKILL, and lastMoments of that are for us, to report.
const (
	defaultKillGrace = 25 * time.Second
	killMargin       = 3 * time.Second
)

// LimitGrace gives the ranks of a job of a batch system no longer to end than that leaves them before it kills, and us
// with them: as the user says (--batch-option kill-delay=; 0: nothing), as it answers, or by its manual. It is asked only if a request gives
// them long; run runs one of its programs. What comes of it is returned; 0: they have what was wanted.
func LimitGrace(req *job.Request, told time.Duration, run batch.Run) (time.Duration, error) {
	wait := told
	switch {
	case req.RM == nil && told > 0:
		return 0, &usererr.Error{Text: "--batch-option kill-delay= has a meaning only in a job of a batch system", Remedy: "use --kill-grace, or leave it out"}
	case req.RM == nil:
		return 0, nil
	case told > 0:
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

// killDelay is the time that a batch system gives between SIGTERM and SIGKILL, which it is asked for if more than the usual is wanted;
// 0: unknown.
func killDelay(s *batch.System, wanted time.Duration, run batch.Run) time.Duration {
	switch {
	case s == nil: // the list is in a file
		return 0
	case s.KillWait != nil && wanted > defaultKillGrace:
		return s.KillWait(run)
	}
	return s.KillDelay
}

// treatLocalAsRemote has this machine reached like all others.
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

// FindHost finds a host in the job: how the batch system spells it, and what it is in the job.
func (s Starter) FindHost(host string) (call batch.Call, held bool) {
	found, held := findAllocated(s.allocation, host)
	call = batch.Call{Host: found.Name, Part: -1, Rank: found.Rank}
	if slices.ContainsFunc(s.allocation.Hosts, func(h batch.Host) bool { return h.Group > 0 }) {
		call.Part = found.Group
	}
	return call, held
}

// findAllocated finds a host in an allocation, by its name or, where only one of the two has a domain, by what stands before that.
func findAllocated(given *batch.Allocation, host string) (batch.Host, bool) {
	i := slices.IndexFunc(given.Hosts, func(have batch.Host) bool {
		short, _, long := strings.Cut(have.Name, ".")
		asked, _, qualified := strings.Cut(host, ".")
		return strings.EqualFold(have.Name, host) || long != qualified && strings.EqualFold(short, asked)
	})
	if i < 0 {
		return batch.Host{}, false
	}
	return given.Hosts[i], true
}

// Logins finds out how a host lets us in, by the SSH server that was started there for this job; nil: none was.
func (w Inputs) Logins(j option.JobOptions) func(host string) (login batch.Login, held bool) {
	given := w.sshAllocation(j.RMK)
	if given == nil {
		return nil
	}
	return func(host string) (batch.Login, bool) {
		found, held := findAllocated(given, host)
		return found.Login, held
	}
}

// sshAllocation are the hosts on which SSH servers were started for the job that we are inside of, also if the user names some
// of them; nil: there are none. What cannot be read then does not matter. A launch from inside of a rank does not look (RM-2).
func (w Inputs) sshAllocation(rmk string) *batch.Allocation {
	given := w.Allocation
	if given == nil {
		system, _ := batch.Inside(w.allocInputs())
		outer, _ := w.lookupEnv("MPIEXEC_JOBID")
		if system == nil || !system.Logins || outer != "" || rmk == "none" || rmk == "user" {
			return nil
		}
		all, err := batch.Read(system.Name, w.allocInputs(), batch.Wish{})
		if err != nil {
			return nil
		}
		given = &all
	}
	if !slices.ContainsFunc(given.Hosts, batch.Host.LetsIn) {
		return nil
	}
	return given
}
