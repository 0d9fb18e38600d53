package gang

import (
	"fmt"
	"slices"
	"time"

	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/text"
)

func init() { launch.Register(launch.Feature{Name: "gang", Attach: attach}) }

// A jobTurns handles, in mpiexec, the turns of a job during one attempt (one run of all ranks). It combines what the
// nodes report about other jobs that share the job's CPUs.
type jobTurns struct {
	job      *launch.Job
	reports  map[int]*Competition // by Node.Key
	sent     []int                // the parties that were last sent to the nodes
	reported string               // the last message to the user
	reportAt time.Time            // when to report to the user; zero: there is nothing new
	over     bool                 // the job is ending

	began time.Time // when the first ranks were started
	ended time.Time // when nothing of the job ran any more; zero: it runs
	held  bool      // its ranks are stopped on a node, in the turn of another job
}

// reportDelay is how long mpiexec waits for reports of other nodes before it reports a change to the user.
const reportDelay = time.Second

func attach(j *launch.Job) {
	if j.Plan.Gang == nil {
		return
	}
	t := &jobTurns{job: j, reports: make(map[int]*Competition)}
	launch.Handle(j, func(n *launch.Node, m *Competition) []supervise.Event {
		t.reports[n.Key] = m
		t.update()
		return nil
	})
	forget := func(n *launch.Node) {
		delete(t.reports, n.Key)
		t.update()
	}
	j.Hooks.NodeLost.Add(forget)
	j.Hooks.NodeDrained.Add(forget)
	j.Hooks.Ended.Add(func() { t.ended = time.Now() })
	j.Hooks.Result.Add(func(r *job.Result) { r.Gang = t.usageAt(time.Now()) })
	j.Hooks.GroupStarts.Add(func(g *launch.Group) {
		if t.began.IsZero() {
			t.began = time.Now()
		}
		for _, n := range g.Nodes {
			if len(t.sent) > 0 {
				n.Send(&Competitors{Parties: t.sent})
			}
		}
	})
	j.Hooks.Due.Add(func(now time.Time) time.Time {
		if j.State.Phase != supervise.Running && !t.over {
			t.over = true
			j.SendAll(&Competitors{Over: true})
		}
		if !t.reportAt.IsZero() && !now.Before(t.reportAt) {
			t.reportAt = time.Time{}
			t.reportSharing()
		}
		return t.reportAt
	})
}

// update sends the numbers of all jobs with which this job takes turns to all nodes. While the ranks are stopped on a
// node, it also stops the clock of the job's time limit.
func (t *jobTurns) update() {
	var parties []int
	held := false
	for _, m := range t.reports {
		parties, held = append(parties, m.Parties...), held || m.Held
	}
	if all := idset.New(parties...); !slices.Equal(all, t.sent) && !t.over {
		t.sent = all
		t.job.SendAll(&Competitors{Parties: all})
	}
	if held = held && !t.over; held != t.held {
		if t.held = held; held {
			t.job.Hold(job.HoldGang)
		} else {
			t.job.Release(job.HoldGang)
		}
	}
	if t.reportAt.IsZero() {
		t.reportAt = time.Now().Add(reportDelay)
	}
}

// usageAt returns how long the job had run and how long it had been stopped, at the time now or at the end of the
// job, whichever is earlier.
func (t *jobTurns) usageAt(now time.Time) *job.GangUsage {
	if !t.ended.IsZero() {
		now = t.ended
	}
	var u job.GangUsage
	if u.Stopped, u.Switches = t.job.Stopped(now); !t.began.IsZero() {
		u.Ran = max(0, now.Sub(t.began)-u.Stopped)
	}
	return &u
}

// reportSharing reports to the user with how many jobs this job shares CPUs. It prints the first report as a message,
// and later changes only with -v.
func (t *jobTurns) reportSharing() {
	var jobs []job.ID
	var nodes []string
	var slice time.Duration
	for _, n := range t.job.Nodes {
		if m := t.reports[n.Key]; m != nil && len(m.Parties) > 0 {
			jobs, nodes, slice = append(jobs, m.Jobs...), append(nodes, n.Name()), m.Slice
		}
	}
	slices.Sort(jobs)
	line := "gang: the job shares its CPUs with no other job"
	if n := len(slices.Compact(jobs)); n > 0 {
		line = fmt.Sprintf("gang: sharing CPUs of %s with %s, in turns of %v", hostlist.FoldBrief(nodes), text.Count(n, "other job"), slice)
	} else if t.reported == "" {
		return
	}
	if line == t.reported || t.over {
		return
	}
	if t.reported == "" {
		t.job.Env.Report(line)
	} else {
		t.job.Env.Log.Info().Msg(line)
	}
	t.reported = line
}
