/*
Package turns decides which of the jobs that share CPUs runs when (--gang). Such a job is a gang, and has a party:
a number from 0 to P-1. Gangs that share a CPU have different parties. Time is cut into slices, numbered by the
wall clock. Each slice belongs to one party, and other gangs may run in it if they are in nobody's way:

	P = 4                 even cycle    odd cycle
	slice                 0 1 2 3       4 5 6 7
	owner                 0 1 2 3       0 1 2 3
	gang of party 0       x x           x     x     the owner is away: the gang runs that is nearest to the owner,
	gang of party 2           x x         x x       counted upwards in even cycles, downwards in odd ones

Each gang decides alone. Two gangs that share a CPU know each other's party, so they decide alike and never run
together. The package performs no I/O and reads no clock.
*/
package turns

import (
	"slices"
	"time"
)

// Runs reports whether a gang runs in slice n. ownParty is its party, competitors has the parties of all gangs that share a
// CPU with it on any node, and parties is P. ownParty must not be in competitors.
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

// Slice returns the number of the slice of a time, and when it began. length must be positive. Times before 1970 are in
// slice 0.
func Slice(at time.Time, length time.Duration) (n int64, start time.Time) {
	n = max(0, at.UnixNano()) / int64(length)
	return n, time.Unix(0, n*int64(length))
}

// Share returns in how many of the 2*P slices of two cycles the gang runs. Both cycles together repeat.
func Share(ownParty int, competitors []int, parties int) (slices int) {
	for n := range 2 * int64(parties) {
		if Runs(ownParty, competitors, parties, n) {
			slices++
		}
	}
	return slices
}
