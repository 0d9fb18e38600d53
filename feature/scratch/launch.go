package scratch

import (
	"slices"

	"remshell/format"
	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/text"
)

func init() { launch.Register(launch.Feature{Name: "scratch", Attach: attach}) }

// maxKeptShown is the maximum number of kept folders that mpiexec lists at the end.
const maxKeptShown = 12

func attach(j *launch.Job) {
	var kept []string // HOST:PATH
	launch.Handle(j, func(n *launch.Node, m *ScratchLeft) []supervise.Event {
		if m.Why != "" {
			j.Env.Log.Warn().Str("node", n.Name()).Msgf("cannot remove the scratch folder %s: %s", format.EscapeUncut(m.Path), m.Why)
		} else {
			kept = append(kept, n.Name()+":"+format.EscapeUncut(m.Path))
		}
		return nil
	})
	j.Hooks.Details.Add(func(job.Result) {
		slices.Sort(kept)
		for _, folder := range kept[:min(len(kept), maxKeptShown)] {
			j.Env.Report("the scratch folder was kept: " + folder)
		}
		if more := len(kept) - maxKeptShown; more > 0 {
			j.Env.Report("scratch folders were also kept on " + text.Count(more, "more host"))
		}
	})
}
