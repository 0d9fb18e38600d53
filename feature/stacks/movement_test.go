//go:build linux

package stacks

import (
	"slices"
	"testing"
	"time"

	"remshell/stack"
)

// A rank moves if its slot changes, and only then.
func TestWatchSlots(t *testing.T) {
	reads := 0
	memory := func(rank int) stack.Memory {
		return func(address uint64, to []byte) bool {
			clear(to)
			switch rank {
			case 1:
				if reads++; reads > 3 {
					to[0] = 1
				}
			case 2:
				to[0] = 1
				return false // the process is gone
			}
			return true
		}
	}
	slots := []slot{{rank: 0, address: 8}, {rank: 1, address: 8}, {rank: 2, address: 8}, {rank: 3}}
	if moved := watchSlots(slots, memory, 50*time.Millisecond); !slices.Equal(moved, []int{1}) {
		t.Errorf("%v have moved", moved)
	}
}

// A rank has moved if it was read before and is elsewhere now.
func TestMovedSince(t *testing.T) {
	before := map[int]fingerprint{0: {true, 7, 1}, 1: {true, 7, 1}, 2: {true, 7, 1}, 4: {true, 7, 1}}
	now := map[int]fingerprint{0: {true, 7, 1}, 1: {false, 7, 1}, 2: {true, 8, 1}, 3: {true, 9, 1}, 4: {true, 7, 2}}
	if moved := movedSince(before, now); !slices.Equal(moved, []int{1, 2, 4}) {
		t.Errorf("%v have moved", moved)
	}
}
