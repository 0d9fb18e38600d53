//go:build linux

package spawn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"remshell/helper/rpc"
	"remshell/job"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// Children get the variables that their parent sets for them. Of its identity they get only the port by which they
// find it (PMIX-42).
func TestVariablesForChildren(t *testing.T) {
	parent := []string{"OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=0", "PMIX_RANK=0", "OMPI_MCA_btl=self",
		job.SuggestedVariable + "=" + job.SuggestedValue([]string{"OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=0"})}
	given := []string{"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_pml=ob1", "OMPI_MCA_mpi_oversubscribe=1", "OMPI_MCA_ess=pmi", "OMPI_MCA_orte_ess_num_procs=1",
		"PMIX_RANK=7", "OMPI_MCA_btl=self", "COLOR=blue", "=x", "nothing"}
	want := []string{"OMPI_PARENT_PORT=1.0:2", "OMPI_MCA_mpi_oversubscribe=1", "OMPI_MCA_btl=self", "COLOR=blue"}
	if got := childEnv(given, job.OuterFilter(parent)); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// A request that is too large for mpiexec fails on the node, and the rank goes on.
func TestASpawnThatIsTooLargeIsRefused(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	q := rpc.NewRequests(func(wire.Message) error {
		cancel(errors.New("it was sent"))
		return nil
	})
	for _, large := range []spawn.Command{
		{Argv: []string{"a", strings.Repeat("x", 256<<10)}, Count: 1},
		{Argv: make([]string, maxArgs+1), Count: 1},
		{Argv: []string{"a"}, Count: 1, Info: make([]spawn.Pair, maxPairs+1)},
		{Argv: []string{"a"}, Count: 1, Env: make([]string, maxPairs+1)},
	} {
		if _, _, err := (requester{Requests: q, dir: func(int) string { return "/" }}).Spawn(ctx, spawn.Request{Commands: []spawn.Command{large}}); err != errTooLarge {
			t.Errorf("got %v", err)
		}
	}
}
