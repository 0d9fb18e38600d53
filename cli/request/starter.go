package request

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"remshell/batch"
	"remshell/cli/option"
	"remshell/fault"
	"remshell/job"
	"remshell/pin"
)

// A Starter is a batch system that starts our helpers on the nodes of its job (RM-30).
type Starter struct {
	System   *batch.System // nil: hosts are reached by ssh or as the user said
	Job      string        // its number
	Asked    bool          // by name: then there is no other way
	Most     time.Duration // between SIGTERM and SIGKILL, before the batch system kills; 0: as wanted
	Together bool          // it is called once for all hosts, or as many as go together
	given    *batch.Allocation
}

// Starter is that of the batch system in whose job we are, if it has one that we know and the user
// wants no other. One that nobody has tried has to be asked for. A launch from inside of a rank does not look (RM-2).
func (w World) Starter(j option.Job) (Starter, error) {
	asked := batch.ByLauncher(j.Launcher)
	outer, _ := w.env("MPIEXEC_JOBID")
	if asked == nil && (j.Launcher != "" && j.Launcher != "auto" || len(j.LauncherExec) > 0 || j.RMK == "none" || j.RMK == "user" || outer != "") {
		return Starter{}, nil
	}
	system, number := batch.Inside(w.batch())
	switch {
	case asked != nil && asked != system, asked != nil && asked.Attach != nil && !attachable(number):
		return Starter{}, &fault.Error{Text: fmt.Sprintf("-launcher %s: this is no job of %s's", j.Launcher, asked.Title), Remedy: asked.Within + "; or use -launcher ssh"}
	case asked != nil && asked.Attach != nil:
		return Starter{System: asked, Job: number, Asked: true}, nil
	case system == nil, system.Starter == nil, system.Untried && asked == nil:
		return Starter{}, nil
	}
	given := w.Grant
	if given == nil || given.System != system.Name { // the user names hosts
		whole, err := batch.Read(system.Name, w.batch(), batch.Wish{})
		if err != nil {
			return Starter{}, err
		}
		given = &whole
	}
	return Starter{System: system, Job: number, Asked: asked != nil, given: given}, nil
}

// attachable reports whether the number of a job may be sent to each host, for the program there that attaches processes to it.
func attachable(number string) bool {
	const most = 256
	return number != "" && len(number) <= most && number[0] != '-'
}

// Inside finds the batch system in whose job we are, and its number of the job; nil: we are in none.
func (w World) Inside() (system *batch.System, number string) { return batch.Inside(w.batch()) }

// Reaches makes a request one whose hosts are reached by the starter, if there is one.
func (s Starter) Reaches(req *job.Request) {
	if s.System == nil {
		return
	}
	if s.System.Starter.Here {
		everywhere(req)
	}
	for i := range req.Nodes { // what the batch system starts, it has confined
		if n := &req.Nodes[i]; !n.Local {
			n.Grant, n.GrantGPU = pin.Grant{}, ""
		}
	}
	if req.RM == nil { // the user has named hosts of it
		req.RM = told(s.given)
	}
	req.RM.Starter, req.RM.Grade = s.System.Starter.Program, job.Tight
	if s.Most > 0 {
		req.Limits.Grace = min(req.Limits.Grace, s.Most)
	}
}

// Times of the end of a batch system's job (RM-62): it is asked for its own if more than usualGrace is
// wanted between SIGTERM and SIGKILL, and lastMoments of that are for us, to report.
const (
	usualGrace  = 25 * time.Second
	lastMoments = 3 * time.Second
)

// Hasten gives the ranks of a job of a batch system no longer to end than that leaves them before it kills, and us
// with them: as the user says (--batch-option kill-delay=; 0: nothing), as it answers, or by its manual. It is asked only if a request gives
// them long; run runs one of its programs. What comes of it is returned; 0: they have what was wanted.
func Hasten(req *job.Request, told time.Duration, run batch.Run) (time.Duration, error) {
	wait := told
	switch {
	case req.RM == nil && told > 0:
		return 0, &fault.Error{Text: "--batch-option kill-delay= has a meaning only in a job of a batch system", Remedy: "use --kill-grace, or leave it out"}
	case req.RM == nil:
		return 0, nil
	case told > 0:
	default:
		wait = killDelay(batch.Named(req.RM.Name), req.Limits.Grace, run)
	}
	if wait == 0 {
		return 0, nil
	}
	most := max(wait-lastMoments, time.Second)
	req.Limits.Grace = min(req.Limits.Grace, most)
	return most, nil
}

// killDelay is the time that a batch system gives between SIGTERM and SIGKILL, which it is asked for if more than the usual is wanted;
// 0: unknown.
func killDelay(s *batch.System, wanted time.Duration, run batch.Run) time.Duration {
	switch {
	case s == nil: // the list is in a file
		return 0
	case s.KillWait != nil && wanted > usualGrace:
		return s.KillWait(run)
	}
	return s.KillDelay
}

// everywhere has this machine reached like all others.
func everywhere(req *job.Request) {
	for _, nodes := range [][]job.NodeDef{req.Nodes, req.Queue.Spare, req.Spawn.List} {
		for i := range nodes {
			nodes[i].Local = false
		}
	}
	if req.Queue.Host != nil {
		req.Queue.Host.Local = false
	}
}

// Find finds a host in the job: how the batch system spells it, and what it is in the job.
func (s Starter) Find(host string) (call batch.Call, held bool) {
	found, held := find(s.given, host)
	call = batch.Call{Host: found.Name, Part: -1, Rank: found.Rank}
	if slices.ContainsFunc(s.given.Hosts, func(h batch.Host) bool { return h.Group > 0 }) {
		call.Part = found.Group
	}
	return call, held
}

// find finds a host in an allocation, by its name or, where only one of the two has a domain, by what stands before that.
func find(given *batch.Allocation, host string) (batch.Host, bool) {
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
func (w World) Logins(j option.Job) func(host string) (login batch.Login, held bool) {
	given := w.contacts(j.RMK)
	if given == nil {
		return nil
	}
	return func(host string) (batch.Login, bool) {
		found, held := find(given, host)
		return found.Login, held
	}
}

// contacts are the hosts on which SSH servers were started for the job that we are inside of, also if the user names some
// of them; nil: there are none. What cannot be read then does not matter. A launch from inside of a rank does not look (RM-2).
func (w World) contacts(rmk string) *batch.Allocation {
	given := w.Grant
	if given == nil {
		system, _ := batch.Inside(w.batch())
		outer, _ := w.env("MPIEXEC_JOBID")
		if system == nil || !system.Logins || outer != "" || rmk == "none" || rmk == "user" {
			return nil
		}
		all, err := batch.Read(system.Name, w.batch(), batch.Wish{})
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
