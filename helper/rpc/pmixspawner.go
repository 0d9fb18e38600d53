//go:build linux

package rpc

import (
	"context"
	"slices"
	"strings"

	"remshell/job"
	"remshell/pmiserver/spawn"
)

// A PMIxSpawner is a Spawner for ranks that ask by PMIx.
type PMIxSpawner struct {
	Spawner
	Environ func(rank int) []string // that a rank began with
}

// Spawn is that of spawn.Spawner.
func (p PMIxSpawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	outer := job.OuterFilter(p.Environ(r.Rank))
	for i := range r.Commands {
		r.Commands[i].Env = childEnv(r.Commands[i].Env, outer)
	}
	return p.Spawner.Spawn(ctx, r)
}

// parentPort is by what a child of Open MPI finds its parent (PMIX-42).
const parentPort = "OMPI_PARENT_PORT"

// childEnv are the variables that a rank wants its children to have, without what it was told
// of itself: Open MPI hands on all of its own, and they are told theirs.
func childEnv(env []string, outer func(assignment string) bool) []string {
	return slices.DeleteFunc(slices.Clone(env), func(assignment string) bool {
		name, _, given := strings.Cut(assignment, "=")
		return !given || name == "" || name != parentPort && outer(assignment)
	})
}
