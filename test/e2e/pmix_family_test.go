//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"remshell/tools/testbed"
)

// These are processes that were spawned and what else PMIx serves: names, groups, places. Programs
// of PMIx alone, and those of Open MPI.

// family runs testdata/pmix/family.c.
func (b *bed) family(t *testing.T, hosts, mode string, more ...string) result {
	t.Helper()
	return b.run(t, slices.Concat([]string{"-hosts", hosts, "-n", "2", mpi(t, "family"), mode}, more)...)
}

// The node rank of a spawned rank counts the job's ranks on its node from the first on (pmix.nrank), also in
// the words of its environment, on every node.
func TestNodeRanksOfSpawnedRanks(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	b.family(t, "n1:8", "place", "2").ran(t, b, []string{
		"child 0 of 2 on n1: node rank 2", "child 1 of 2 on n1: node rank 3", "place 2: spawned"})
	b.family(t, "n1:2,n2:2", "place", "2").ran(t, b, []string{
		"child 0 of 2 on n2: node rank 0", "child 1 of 2 on n2: node rank 1", "place 2: spawned"})
	b.family(t, "n1:1,n2:2", "place", "1").ran(t, b, []string{"child 0 of 1 on n2: node rank 1", "place 1: spawned"})
	const script = `echo "$OMPI_COMM_WORLD_NODE_RANK of $OMPI_COMM_WORLD_RANK"; exec "$0" "$@"`
	r := b.run(t, "-hosts", "n1:8", "-n", "2", "sh", "-c", script, mpi(t, "family"), "place", "1")
	r.ran(t, b, []string{"0 of 0", "1 of 1", "child 0 of 1 on n1: node rank 2", "place 1: spawned"})
}

// Names go between two groups that were spawned, on one host and over two: with PMIx, whose look-up waits,
// and with MPI, whose groups then meet.
func TestNamesBetweenSpawnedGroups(t *testing.T) {
	t.Parallel()
	cousins := mpi(t, "spawn.openmpi")
	b := newBed(t, testbed.Options{Hosts: 2})
	for _, hosts := range []string{"n1:8", "n1:3,n2:3"} {
		b.family(t, hosts, "names", "2").ran(t, b, []string{"names: 2 of the second know what the first has"})
		args := slices.Concat(shared, []string{"-hosts", hosts, "-n", "2", cousins, "cousins", "2"})
		b.run(t, args...).ran(t, b, []string{"cousins: 2 and 2, sum 6"})
	}
}

// A rank and those that it has spawned make a group of PMIx, on one host and over two.
func TestPMIxGroupOfParentAndChildren(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	for _, hosts := range []string{"n1:8", "n1:2,n2:2"} {
		b.family(t, hosts, "group", "2").ran(t, b, []string{"group of 3: the same number; unmade"})
	}
}

// The time of a group that is made, or unmade, can be over; then it is tried again. On one host and on two.
func TestPMIxGroupWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newBed(t, testbed.Options{Hosts: 2})
	var want []string
	for rank := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: late, then a group of 4; late, then unmade", rank))
	}
	for _, hosts := range []string{"n1:4", "n1:2,n2:2"} {
		b.run(t, "-hosts", hosts, "-n", "4", mpi(t, "late"), "group").ran(t, b, want)
	}
}
