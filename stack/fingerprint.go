package stack

import (
	"encoding/binary"
	"hash/fnv"
)

// fingerprintBytes is the maximum number of bytes of a stack that Fingerprint reads.
const fingerprintBytes = 32 << 10

// calleeSaved lists the DWARF numbers of the registers that a called function must not change.
var calleeSaved = map[Arch][]int{AMD64: {3, 6, 12, 13, 14, 15}, ARM64: {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}}

// A Frame contains the known registers of a function that waits for a call to return.
type Frame struct {
	arch Arch
	regs Registers
}

// CallerOf returns the frame of the caller of a function on the stack. number is the function's position,
// counted from 0, the innermost function. ok is false if the stack cannot be unwound that far.
func CallerOf(a Arch, regs Registers, mem Memory, mappings []Mapping, number int) (f Frame, ok bool) {
	u := unwinder{arch: layouts[a], amd64: a == AMD64, mem: mem, mappings: mappings}
	for i, exact := 0, true; i <= min(number, MaxFrames); i++ {
		next, signal, ok := u.step(regs, u.locate(regs.PC, exact), i == 0)
		if !ok || next.PC == 0 {
			return f, false
		}
		regs, exact = next, signal
	}
	return Frame{a, regs}, true
}

// SP returns the value that the stack pointer has when the call returns. On AMD64 the return address is in the word
// below.
func (f *Frame) SP() uint64 { return f.regs.SP(f.arch) }

// Fingerprint returns a hash of what the function and its callers keep in registers and on the stack. While the function
// waits for a call to return, the hash stays the same.
func (f *Frame) Fingerprint(mem Memory) uint64 {
	sum := fnv.New64a()
	add := func(value uint64) { sum.Write(binary.LittleEndian.AppendUint64(nil, value)) }
	add(f.regs.PC)
	add(f.SP())
	for _, number := range calleeSaved[f.arch] {
		if value, known := f.regs.Get(number); known {
			add(value)
		}
	}
	const piece = 1 << 10
	buf := make([]byte, piece)
	for read := 0; read < fingerprintBytes && mem(f.SP()+uint64(read), buf); read += piece {
		sum.Write(buf)
	}
	return sum.Sum64()
}
