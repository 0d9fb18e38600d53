//go:build linux

package helper

import "remshell/helper/uplink"

// pmixSpawner starts what ranks of a group ask for by PMIx.
func (s *session) pmixSpawner(g *group) uplink.PMIxSpawner {
	of := make(map[int]*process, len(g.ranks))
	for _, r := range g.ranks {
		of[r.plan.Rank] = r
	}
	return uplink.PMIxSpawner{
		Spawner: uplink.Spawner{Questions: s.asked, Dir: func(rank int) string { return of[rank].command.Dir }},
		Environ: func(rank int) []string {
			if !s.awaitBirth(of[rank]) { // or its environment may not be there yet
				return nil
			}
			return g.offers[of[rank].plan.App].env
		},
	}
}
