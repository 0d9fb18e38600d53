//go:build linux

package stacks

import (
	"slices"

	"remshell/feature/stacks/tree"
	"remshell/stack"
)

// A fingerprint tells whether a main thread has done anything since it was last read. If the thread is in an
// MPI call, the fingerprint covers only the callers of MPI, because the library itself may poll. If not, it
// covers the whole stack.
type fingerprint struct {
	inMPI bool
	hash  uint64
}

// fingerprintOf returns the fingerprint of a thread. It returns false if the stack could not be read.
func (t *rawThread) fingerprintOf(names map[addressKey][]stack.Location) (p fingerprint, ok bool) {
	if t.hashFrom == nil || len(t.frames) == 0 {
		return p, false
	}
	for i, a := range slices.Backward(t.frames) {
		for _, l := range names[keyOf(a)] {
			if tree.Communicates(l.Function) {
				p.hash, ok = t.hashFrom(i + 1)
				p.inMPI = true
				return p, ok
			}
		}
	}
	for _, a := range t.frames {
		p.hash = p.hash*31 + a.PC
	}
	return p, true
}

// fingerprintsOf returns the fingerprints of main threads, by rank.
func fingerprintsOf(threads []rawThread, names map[addressKey][]stack.Location) map[int]fingerprint {
	all := make(map[int]fingerprint)
	for i := range threads {
		if p, ok := threads[i].fingerprintOf(names); ok && threads[i].main {
			all[threads[i].rank] = p
		}
	}
	return all
}

// movedSince returns the ranks whose fingerprints differ from those of an earlier reading. Ranks that have only one are
// not among them.
func movedSince(before, now map[int]fingerprint) (moved []int) {
	for rank, p := range now {
		if was, known := before[rank]; known && was != p {
			moved = append(moved, rank)
		}
	}
	slices.Sort(moved)
	return moved
}
