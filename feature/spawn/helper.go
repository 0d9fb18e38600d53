//go:build linux

package spawn

import (
	"context"
	"errors"
	"slices"
	"strings"

	"remshell/helper"
	"remshell/helper/rpc"
	"remshell/job"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "spawn", Attach: attachHelper}) }

// attachHelper makes the PMI servers of this node send spawn requests to mpiexec.
func attachHelper(s *helper.Session) {
	q := s.Requests()
	helper.Handle(s, func(m *Spawned) { q.Deliver(m.ID, m) })
	s.Providers.Spawner = func(g *helper.Group) spawn.Spawner {
		return requester{
			Requests: q,
			dir:      func(rank int) string { return g.FindRank(rank).Dir() },
			environ: func(rank int) []string {
				r := g.FindRank(rank)
				if !s.AwaitStarted(r) { // before that, its environment may not be composed
					return nil
				}
				return r.Environ()
			},
		}
	}
}

// A requester sends the spawn requests of one group's ranks on this node to mpiexec. It implements spawn.Spawner.
type requester struct {
	*rpc.Requests
	dir     func(rank int) string   // returns the working directory of a rank
	environ func(rank int) []string // returns the environment with which a rank started
}

// errTooLarge is returned for a spawn request that exceeds a size limit.
var errTooLarge = errors.New("the spawn request is too large")

// maxFaultBytes is the maximum length of Spawn.Fault, in bytes.
const maxFaultBytes = 1 << 10

// Spawn implements spawn.Spawner: it requests that mpiexec start more ranks. For a request that is too large
// it returns an error, and the job continues.
func (q requester) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	if r.PMIx {
		outer := job.OuterFilter(q.environ(r.Rank))
		for i := range r.Commands {
			r.Commands[i].Env = childEnv(r.Commands[i].Env, outer)
		}
	}
	fault := ""
	if err := expandFiles(r.Commands, q.dir(r.Rank)); err != nil {
		fault = strings.ToValidUTF8(err.Error(), "?")
		fault = strings.ToValidUTF8(fault[:min(len(fault), maxFaultBytes)], "")
	}
	m := &Spawn{Request: r, Fault: fault}
	if isTooLarge(m) {
		return "", nil, errTooLarge
	}
	answer, err := rpc.Call(ctx, q.Requests, func(id int) *Spawn {
		m.ID = id
		return m
	}, nil)
	switch {
	case err != nil:
		return "", nil, err
	case answer.Full:
		return "", nil, spawn.NoSlots(answer.Err)
	case answer.Err != "":
		return "", nil, errors.New(answer.Err)
	}
	return answer.Group, answer.Codes, nil
}

// isTooLarge reports whether a request exceeds the size limits that mpiexec enforces. mpiexec closes the connection of
// a helper that sends such a request.
func isTooLarge(m *Spawn) bool {
	longest := max(len(m.Request.Commands), len(m.Request.Preputs))
	for _, c := range m.Request.Commands {
		if len(c.Argv) > maxArgs {
			return true
		}
		longest = max(longest, len(c.Info), len(c.Env))
	}
	return longest > maxPairs || wire.TooLarge(m)
}

// parentPort is the variable by which a spawned rank of Open MPI finds its parent (rule PMIX-42).
const parentPort = "OMPI_PARENT_PORT"

// childEnv returns the variables of env that the spawned ranks get. Open MPI sends all variables of the parent rank.
// Variables that identify a rank, for which isOwn returns true, are left out, because each spawned rank gets
// variables of its own. Only parentPort is kept.
func childEnv(env []string, isOwn func(assignment string) bool) []string {
	return slices.DeleteFunc(slices.Clone(env), func(assignment string) bool {
		name, _, given := strings.Cut(assignment, "=")
		return !given || name == "" || name != parentPort && isOwn(assignment)
	})
}
