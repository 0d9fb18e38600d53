package launch

import (
	"remshell/job"
	"remshell/text"
	"remshell/wire"
)

// leftoversFreed records and reports the shared memory that ranks of a node have left behind
// (PD-17).
func (j *Job) leftoversFreed(n *Node, m *wire.IPCCleaned) {
	for i := range m.Leftovers {
		m.Leftovers[i].Node = n.Name()
		j.Env.observer().LeftoverFreed(m.Leftovers[i])
	}
	j.usage.leftovers = append(j.usage.leftovers, m.Leftovers...)
	freed, kept := splitLeftovers(m.Leftovers)
	for _, r := range kept[:min(len(kept), maxKeptReported)] {
		j.Env.Log.Warn().Str("node", n.Name()).Msgf("could not free %s %s%s: %s", r.Kind, r.ID, formatOfRanks([]job.Leftover{r}, j.GroupFirsts), r.Err)
	}
	if len(freed) > 0 {
		j.Env.Log.Info().Str("node", n.Name()).Msg(formatFreed(freed, j.GroupFirsts))
	}
	if m.Semaphores > 0 {
		j.Env.Log.Info().Str("node", n.Name()).Msgf("%s of this user remain, made since the job began; see ipcs -s", text.Count(m.Semaphores, "semaphore set"))
	}
}

// maxKeptReported is how many objects of one node that could not be freed are logged; --report
// lists all.
const maxKeptReported = 10

func splitLeftovers(all []job.Leftover) (freed, kept []job.Leftover) {
	for _, r := range all {
		if r.Err == "" {
			freed = append(freed, r)
		} else {
			kept = append(kept, r)
		}
	}
	return freed, kept
}
