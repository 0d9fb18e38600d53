//go:build linux

package stacks

import (
	"slices"
	"time"

	"remshell/feature/stacks/tree"
	"remshell/stack"
	"remshell/stack/trace"
)

// A fingerprint shows whether a main thread has done anything since it was last read. If the thread is in an MPI
// call, the fingerprint covers the messages of the process and the stack frames outside the MPI library. It leaves
// out the frames of the library, which change while the library polls. In other threads, the fingerprint covers the
// whole stack.
type fingerprint struct {
	inMPI   bool
	hash    uint64
	traffic uint64 // from trafficOf
}

// fingerprintOf returns the fingerprint of a thread. ok is false if the stack could not be read. For a thread in an
// MPI call, the result at is the slot that changes when the call returns.
func (t *rawThread) fingerprintOf(names map[addressKey][]stack.Location) (p fingerprint, at slot, ok bool) {
	if t.mem == nil || len(t.frames) == 0 {
		return p, at, false
	}
	for i, a := range slices.Backward(t.frames) {
		for _, l := range names[keyOf(a)] {
			if !tree.Communicates(l.Function) {
				continue
			}
			if _, is := tree.MPICall(l.Function); is { // ranks in other libraries may have threads that send heartbeats
				p.traffic = trafficOf(t.thread.TID)
			}
			caller, ok := stack.CallerOf(trace.Host, t.thread.Registers, t.mem, t.mappings, i)
			if !ok {
				return p, at, false
			}
			at = slot{rank: t.rank, address: caller.SP() - slotBelow}
			if !t.mem(at.address, at.was[:]) {
				at.address = 0
			}
			p.inMPI, p.hash = true, caller.Fingerprint(t.mem)
			return p, at, true
		}
	}
	for _, a := range t.frames {
		p.hash = p.hash*31 + a.PC
	}
	return p, at, true
}

// A slot is the part of a stack where a function keeps its variables and, on AMD64, the address to which its current
// call returns. A later call has a different return address.
type slot struct {
	rank    int
	address uint64 // 0: unknown
	was     [64]byte
}

// slotBelow says where a slot begins: this many bytes below the stack pointer of its function.
const slotBelow = 8

// watchSlots reads slots repeatedly for the time d, while their processes run. It returns the ranks whose slot has
// changed. memory returns the memory of a rank.
func watchSlots(slots []slot, memory func(rank int) stack.Memory, d time.Duration) (moved []int) {
	slots = slices.DeleteFunc(slices.Clone(slots), func(s slot) bool { return s.address == 0 })
	var now [64]byte
	for end := time.Now().Add(d); len(slots) > 0 && time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		slots = slices.DeleteFunc(slots, func(s slot) bool {
			changed := memory(s.rank)(s.address, now[:]) && now != s.was
			if changed {
				moved = append(moved, s.rank)
			}
			return changed
		})
	}
	return moved
}

// fingerprintsOf returns the fingerprint of the main thread of each rank, and the slots to watch in these threads.
func fingerprintsOf(threads []rawThread, names map[addressKey][]stack.Location) (all map[int]fingerprint, slots []slot) {
	all = make(map[int]fingerprint)
	for i := range threads {
		if !threads[i].main {
			continue
		}
		if p, at, ok := threads[i].fingerprintOf(names); ok {
			all[threads[i].rank], slots = p, append(slots, at)
		}
	}
	return all, slots
}

// movedSince returns the ranks whose fingerprint in now differs from their fingerprint in before. It leaves out
// ranks that are in only one of the maps.
func movedSince(before, now map[int]fingerprint) (moved []int) {
	for rank, p := range now {
		if was, known := before[rank]; known && was != p {
			moved = append(moved, rank)
		}
	}
	slices.Sort(moved)
	return moved
}
