package cleanipc

import (
	"remshell/job"
	"remshell/launch"
	"remshell/launch/supervise"
	"remshell/text"
)

func init() { launch.Register(launch.Feature{Name: "clean-ipc", Attach: attach}) }

func attach(j *launch.Job) {
	var leftovers []job.Leftover // of all nodes
	launch.Handle(j, func(n *launch.Node, m *IPCCleaned) []supervise.Event {
		for i := range m.Leftovers {
			m.Leftovers[i].Node = n.Name()
		}
		leftovers = append(leftovers, m.Leftovers...)
		report(j, n, m)
		return nil
	})
	j.Hooks.Result.Add(func(r *job.Result) { r.Leftovers = leftovers })
}

// report logs the shared memory and semaphores that ranks of a node have left behind, and writes events about them.
func report(j *launch.Job, n *launch.Node, m *IPCCleaned) {
	for _, r := range m.Leftovers {
		j.Env.Events().LeftoverFound(r)
	}
	freed, kept := splitLeftovers(m.Leftovers)
	for _, r := range kept[:min(len(kept), maxKeptReported)] {
		j.Env.Log.Warn().Str("node", n.Name()).Msgf("cannot remove %s %s%s: %s", r.Kind, r.ID, formatOfRanks([]job.Leftover{r}, j.GroupFirsts), r.Err)
	}
	if len(freed) > 0 {
		j.Env.Log.Info().Str("node", n.Name()).Msg(formatFreed(freed, j.GroupFirsts))
	}
	if m.Semaphores > 0 {
		j.Env.Log.Info().Str("node", n.Name()).Msgf("%s that you created after the start of the job still exist; to list them: ipcs -s", text.Count(m.Semaphores, "semaphore set"))
	}
}

// maxKeptReported is the maximum number of log lines per node about objects that could not be freed. --report lists
// all such objects.
const maxKeptReported = 10

func splitLeftovers(all []job.Leftover) (freed, remaining []job.Leftover) {
	for _, r := range all {
		if r.Err == "" {
			freed = append(freed, r)
		} else {
			remaining = append(remaining, r)
		}
	}
	return freed, remaining
}
