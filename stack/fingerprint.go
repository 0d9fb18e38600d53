package stack

import (
	"encoding/binary"
	"hash/fnv"
)

// fingerprintBytes is the maximum number of bytes of a stack that Fingerprint reads. calleeSaved lists the
// registers that a called function must not change, by their DWARF numbers.
const fingerprintBytes = 32 << 10

var calleeSaved = map[Arch][]int{AMD64: {3, 6, 12, 13, 14, 15}, ARM64: {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}}

// Fingerprint returns a hash of what one function and its callers keep in registers and on the stack. frame selects
// the function: 0 is the innermost function, and 1 is its caller. The hash stays the same while the function waits
// for a call to return. Fingerprint returns false if the stack cannot be unwound up to that function.
func Fingerprint(a Arch, regs Registers, mem Memory, mappings []Mapping, frame int) (hash uint64, ok bool) {
	u := unwinder{arch: layouts[a], amd64: a == AMD64, mem: mem, mappings: mappings}
	for i, exact := 0, true; i < min(frame, MaxFrames); i++ {
		next, signal, ok := u.step(regs, u.locate(regs.PC, exact), i == 0)
		if !ok || next.PC == 0 {
			return 0, false
		}
		regs, exact = next, signal
	}
	sum := fnv.New64a()
	add := func(value uint64) { sum.Write(binary.LittleEndian.AppendUint64(nil, value)) }
	sp := regs.SP(a)
	add(regs.PC)
	add(sp)
	for _, number := range calleeSaved[a] {
		if value, known := regs.Get(number); known {
			add(value)
		}
	}
	const piece = 1 << 10
	buf := make([]byte, piece)
	for read := 0; read < fingerprintBytes && mem(sp+uint64(read), buf); read += piece {
		sum.Write(buf)
	}
	return sum.Sum64(), true
}
