//go:build linux

package rpc

import (
	"context"
	"slices"
	"strings"

	"remshell/job"
	"remshell/pmiserver/spawn"
)

// A PMIxSpawner is a Spawner for ranks that use PMIx.
type PMIxSpawner struct {
	Spawner
	Environ func(rank int) []string // returns the environment with which a rank started
}

// Spawn implements spawn.Spawner.
func (p PMIxSpawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	outer := job.OuterFilter(p.Environ(r.Rank))
	for i := range r.Commands {
		r.Commands[i].Env = childEnv(r.Commands[i].Env, outer)
	}
	return p.Spawner.Spawn(ctx, r)
}

// parentPort is the variable by which a spawned rank of Open MPI finds its parent (PMIX-42).
const parentPort = "OMPI_PARENT_PORT"

// childEnv returns the variables of env that a rank's children shall have. Open MPI passes on all of its own. Those of
// the rank's identity are removed, since the children get their own.
func childEnv(env []string, outer func(assignment string) bool) []string {
	return slices.DeleteFunc(slices.Clone(env), func(assignment string) bool {
		name, _, given := strings.Cut(assignment, "=")
		return !given || name == "" || name != parentPort && outer(assignment)
	})
}
