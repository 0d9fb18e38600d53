package hang

import (
	"cmp"
	"fmt"
	"time"

	"remshell/feature/hang/machine"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
)

func init() { launch.Register(launch.Feature{Name: "hang", Attach: attach}) }

// A watcher watches whether one attempt of a job (one run of all ranks) makes progress.
type watcher struct {
	job   *launch.Job
	ends  bool
	fault string // of the MPI library, as a helper has reported it
	watch *machine.Watch

	records []job.StackRecord // what was reported to the user
}

// maxRecords is the maximum number of reports of a job's hangs that are kept for --report.
const maxRecords = 32

func attach(j *launch.Job) {
	setting, has := launch.SettingOf[*Watching](j)
	if !has {
		return
	}
	w := &watcher{job: j, ends: setting.Ends, watch: machine.NewWatch(machine.Policy{After: setting.After, Plain: setting.Plain}, nil)}
	j.Hooks.GroupStarts.Add(func(g *launch.Group) {
		for _, n := range g.Nodes {
			w.watch.AddNode(n.Key)
		}
	})
	remove := func(n *launch.Node) { w.watch.RemoveNode(n.Key) }
	j.Hooks.NodeDrained.Add(remove)
	j.Hooks.NodeLost.Add(remove)
	launch.Handle(j, func(n *launch.Node, m *Unchanged) []supervise.Event {
		w.watch.AddReport(n.Key, m.Report, time.Now())
		w.fault = cmp.Or(m.Fault, w.fault)
		return nil
	})
	j.Hooks.Due.Add(w.due)
	j.Hooks.Result.Add(func(r *job.Result) { r.Stacks = append(r.Stacks, w.records...) })
}

// due is called when the time that it returned last has come, and after each change. It reads the stacks of all ranks
// if nothing has changed for too long.
func (w *watcher) due(now time.Time) time.Time {
	if w.job.State.Phase != supervise.Running {
		return time.Time{}
	}
	w.watch.Suspend(w.job.IsSuspended(), now)
	read, next := w.watch.NextReading(now)
	if read {
		w.job.SendAll(&TakeSample{}) // before the processes are stopped
		w.job.Stacks.Read(func(s launch.StackSummary) { w.job.Post(func() []supervise.Event { return w.decide(s, time.Now()) }) })
	}
	return next
}

// decide evaluates the stacks of all ranks. If they show that the job makes no progress, it reports that to the user.
// With --hang-action end, it also returns the event that ends the job.
func (w *watcher) decide(s launch.StackSummary, now time.Time) []supervise.Event {
	j := w.job
	v := w.watch.AddReading(machine.Reading{Groups: s.Report.Groups[:len(s.Calls)], Calls: s.Calls, Size: len(j.RankNodes().NodeOfRank), Moved: s.Moved, Computing: s.Computing}, now)
	if v.Why != "" {
		j.Env.Log.Info().Msgf("no progress for %s, but %s", quietText(v.Quiet), v.Why)
	}
	if !v.Hangs || j.State.Phase != supervise.Running {
		return nil
	}
	line, fault := headline(v.Quiet, s), finalizeFault(s, len(j.Nodes), w.fault)
	w.record(job.StackRecord{Time: now, Why: job.StacksOfHang, Quiet: v.Quiet, Summary: line, Likely: s.Likely, Fault: fault.Code, Report: s.Report})
	if w.ends { // the cause of the job's end repeats the first line and the guess
		fmt.Fprint(j.Env.Err, "mpiexec: what each rank waits for:\n"+s.Text+advice(fault))
		if s.Likely != "" {
			line += "; " + s.Likely
		}
		return []supervise.Event{supervise.Failure{Kind: supervise.NoProgress, Text: line}}
	}
	fmt.Fprint(j.Env.Err, "mpiexec: "+line+"\n"+s.TextWithGuess+advice(fault)+"  to print the stacks of all ranks: mpijob status "+string(j.Plan.Job)+" --stacks\n")
	return nil
}

// record writes r as an event, and keeps it for --report.
func (w *watcher) record(r job.StackRecord) {
	w.records = append(w.records, r)
	w.records = w.records[max(0, len(w.records)-maxRecords):]
	w.job.Env.Events().StacksRead(r)
}
