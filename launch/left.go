package launch

import (
	"fmt"
	"slices"
	"strings"

	"remshell/idset"
	"remshell/job"
	"remshell/launch/supervise"
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
		f.env.Log.Warn().Str("node", n.Name()).Msgf("could not free %s %s%s: %s", r.Kind, r.ID, ofRanks([]job.Remnant{r}, f.firsts), r.Err)
	}
	if len(freed) > 0 {
		f.env.Log.Info().Str("node", n.Name()).Msg(freedText(freed, f.firsts))
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

// freedText says what was freed: "freed 2 shared memory segments (128 MiB) and 3 files in /dev/shm (1 MiB) of ranks 2-3".
func freedText(freed []job.Remnant, firsts []int) string {
	var parts []string
	for _, of := range []struct{ kind, noun, where string }{{job.SysVShm, "shared memory segment", ""}, {job.PosixShm, "file", " in /dev/shm"}} {
		count, bytes := 0, int64(0)
		for _, r := range freed {
			if r.Kind == of.kind {
				count, bytes = count+1, bytes+r.Bytes
			}
		}
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%s%s (%s)", text.Count(count, of.noun), of.where, sizeText(bytes)))
		}
	}
	return "freed " + strings.Join(parts, " and ") + ofRanks(freed, firsts)
}

// sizeText writes a size in the largest unit of which there is one.
func sizeText(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return text.Count(int(bytes), "byte")
}

// ofRanks names the ranks that have left something: " of ranks 2-3"; nothing, where nobody knows one.
func ofRanks(left []job.Remnant, firsts []int) string {
	byGroup := make([][]int, len(firsts))
	for _, r := range left {
		if r.Rank < 0 {
			continue
		}
		group, number := supervise.Split(firsts, r.Rank)
		if !slices.Contains(byGroup[group], number) {
			byGroup[group] = append(byGroup[group], number)
		}
	}
	var names []string
	count := 0
	for group, ranks := range byGroup {
		if len(ranks) == 0 {
			continue
		}
		slices.Sort(ranks)
		count += len(ranks)
		name := idset.Text(ranks)
		if group > 0 {
			name = fmt.Sprint(group, ":", name)
		}
		names = append(names, name)
	}
	switch count {
	case 0:
		return ""
	case 1:
		return " of rank " + names[0]
	}
	return " of ranks " + strings.Join(names, ", ")
}
