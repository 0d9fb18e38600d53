package launch

import (
	"remshell/job"
	"remshell/launch/words"
	"remshell/text"
	"remshell/wire"
)

// cleaned takes down what shared memory the ranks of a node have left, and tells it (PD-17).
func (f *fleet) cleaned(n *member, m *wire.Cleaned) {
	for i := range m.Remnants {
		m.Remnants[i].Node = n.Name()
		f.env.watcher().Cleaned(m.Remnants[i])
	}
	f.account.left = append(f.account.left, m.Remnants...)
	freed, kept := splitRemnants(m.Remnants)
	for _, r := range kept[:min(len(kept), maxKeptTold)] {
		f.env.Log.Warn().Str("node", n.Name()).Msgf("could not free %s %s%s: %s", r.Kind, r.ID, words.OfRanks([]job.Remnant{r}, f.firsts), r.Err)
	}
	if len(freed) > 0 {
		f.env.Log.Info().Str("node", n.Name()).Msg(words.Freed(freed, f.firsts))
	}
	if m.Semaphores > 0 {
		f.env.Log.Info().Str("node", n.Name()).Msgf("%s of this user remain, made since the job began; see ipcs -s", text.Count(m.Semaphores, "semaphore set"))
	}
}

// maxKeptTold is how many things that could not be freed are told, of one node; --report has all.
const maxKeptTold = 10

func splitRemnants(all []job.Remnant) (freed, kept []job.Remnant) {
	for _, r := range all {
		if r.Err == "" {
			freed = append(freed, r)
		} else {
			kept = append(kept, r)
		}
	}
	return freed, kept
}
