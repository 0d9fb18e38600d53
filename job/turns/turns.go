/*
Package turns decides which of several jobs that share CPUs runs at any given time (--gang). Such a job is a gang, and
has a party, which is a number from 0 to P-1. Gangs that share a CPU have different parties. Time is divided into
slices, which are numbered by the wall clock. Each slice belongs to one party, its owner. A gang of another party may
run in the slice unless it shares a CPU with a gang that is nearer to the owner:

	P = 4                 even cycle    odd cycle
	slice                 0 1 2 3       4 5 6 7
	owner                 0 1 2 3       0 1 2 3
	gang of party 0       x x           x     x     if no gang is the owner, the gang nearest to the owner runs,
	gang of party 2           x x         x x       counted upwards in even cycles, downwards in odd ones

Each gang decides alone. Two gangs that share a CPU know each other's party, so their decisions agree, and they never
run at the same time. The package performs no I/O and reads no clock.
*/
package turns

import (
	"slices"
	"time"
)

// Runs reports whether a gang (a job that shares CPUs in turns) runs in slice n. ownParty is the gang's party.
// competitors lists the parties of all gangs that share a CPU with the gang on any node, and must not contain
// ownParty. parties is P, the number of parties.
func Runs(ownParty int, competitors []int, parties int, n int64) bool {
	p := int64(parties)
	t, reversed := int(n%p), n/p%2 == 1
	distance := func(party int) int {
		if reversed {
			return (party - t + parties) % parties
		}
		return (t - party + parties) % parties
	}
	return !slices.ContainsFunc(competitors, func(c int) bool { return distance(c) <= distance(ownParty) })
}

// Slice returns the number of the time slice that contains the given time, and when that slice begins. length, the
// length of each slice, must be positive. Times before 1970 are in slice 0.
func Slice(at time.Time, length time.Duration) (n int64, start time.Time) {
	n = max(0, at.UnixNano()) / int64(length)
	return n, time.Unix(0, n*int64(length))
}

// Share returns how many slices the gang may use in two cycles, which together have 2*P slices. The sequence of slices
// repeats after two cycles.
func Share(ownParty int, competitors []int, parties int) (slices int) {
	for n := range 2 * int64(parties) {
		if Runs(ownParty, competitors, parties, n) {
			slices++
		}
	}
	return slices
}
