package launch

import (
	"remshell/job"
	"remshell/text"
	"remshell/wire"
)

// leftoversFreed records and reports the shared memory that ranks of a node have left behind
// (PD-17).
func (f *runningJob) leftoversFreed(n *jobNode, m *wire.IPCCleaned) {
	for i := range m.Leftovers {
		m.Leftovers[i].Node = n.Name()
		f.env.observer().LeftoverFreed(m.Leftovers[i])
	}
	f.usage.leftovers = append(f.usage.leftovers, m.Leftovers...)
	freed, kept := splitLeftovers(m.Leftovers)
	for _, r := range kept[:min(len(kept), maxKeptReported)] {
		f.env.Log.Warn().Str("node", n.Name()).Msgf("could not free %s %s%s: %s", r.Kind, r.ID, formatOfRanks([]job.Leftover{r}, f.groupFirsts), r.Err)
	}
	if len(freed) > 0 {
		f.env.Log.Info().Str("node", n.Name()).Msg(formatFreed(freed, f.groupFirsts))
	}
	if m.Semaphores > 0 {
		f.env.Log.Info().Str("node", n.Name()).Msgf("%s of this user remain, made since the job began; see ipcs -s", text.Count(m.Semaphores, "semaphore set"))
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
