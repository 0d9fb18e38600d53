package stack

import "encoding/binary"

// evaluate executes at most maxSteps operations of an expression. maxOperands is the maximum number of values on the
// expression's stack.
const (
	maxSteps    = 1000
	maxOperands = 64
)

// evaluate executes a DWARF expression (DWARF 5, 2.5). initial contains the values that are on the expression's stack
// at the beginning. pc is the value of register pcColumn. evaluate supports the operations that compilers and
// assemblers use in call frame information. It returns false if the expression cannot be evaluated.
func evaluate(code []byte, regs *Registers, mem Memory, pcColumn int, pc uint64, initial ...uint64) (uint64, bool) {
	stack := append(make([]uint64, 0, maxOperands), initial...)
	b := &byteReader{data: code}
	push := func(v uint64) { stack = append(stack, v) }
	pop := func() uint64 {
		if len(stack) == 0 {
			b.failed = true
			return 0
		}
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return v
	}
	register := func(number uint64) uint64 {
		if number == uint64(pcColumn) {
			return pc
		}
		v, known := regs.Get(int(min(number, registerCount)))
		b.failed = b.failed || !known
		return v
	}
	for step := 0; b.left() > 0; step++ {
		if b.failed || step == maxSteps || len(stack) > maxOperands-2 {
			return 0, false
		}
		switch op := b.u8(); {
		case op >= 0x30 && op <= 0x4f: // DW_OP_lit
			push(uint64(op - 0x30))
		case op >= 0x70 && op <= 0x8f: // DW_OP_breg
			push(register(uint64(op-0x70)) + uint64(b.sleb()))
		default:
			switch op {
			case 0x03, 0x0e, 0x0f: // DW_OP_addr, DW_OP_const8
				push(b.u64())
			case 0x06: // DW_OP_deref
				v, ok := mem.word(pop(), 8)
				b.failed = b.failed || !ok
				push(v)
			case 0x94: // DW_OP_deref_size
				size := b.u8()
				v, ok := mem.word(pop(), int(size))
				b.failed = b.failed || !ok
				push(v)
			case 0x08:
				push(uint64(b.u8()))
			case 0x09:
				push(uint64(int64(int8(b.u8()))))
			case 0x0a:
				push(uint64(b.u16()))
			case 0x0b:
				push(uint64(int64(int16(b.u16()))))
			case 0x0c:
				push(uint64(b.u32()))
			case 0x0d:
				push(uint64(int64(int32(b.u32()))))
			case 0x10:
				push(b.uleb())
			case 0x11:
				push(uint64(b.sleb()))
			case 0x12: // DW_OP_dup
				v := pop()
				push(v)
				push(v)
			case 0x13: // DW_OP_drop
				pop()
			case 0x14, 0x15: // DW_OP_over, DW_OP_pick
				i := 1
				if op == 0x15 {
					i = int(b.u8())
				}
				if i >= len(stack) {
					return 0, false
				}
				push(stack[len(stack)-1-i])
			case 0x16: // DW_OP_swap
				x, y := pop(), pop()
				push(x)
				push(y)
			case 0x17: // DW_OP_rot
				x, y, z := pop(), pop(), pop()
				push(x)
				push(z)
				push(y)
			case 0x19: // DW_OP_abs
				if v := int64(pop()); v < 0 {
					push(uint64(-v))
				} else {
					push(uint64(v))
				}
			case 0x1f: // DW_OP_neg
				push(-pop())
			case 0x20: // DW_OP_not
				push(^pop())
			case 0x23: // DW_OP_plus_uconst
				push(pop() + b.uleb())
			case 0x28, 0x2f: // DW_OP_bra, DW_OP_skip
				to := int(int16(b.u16()))
				if op == 0x28 && pop() == 0 {
					break
				}
				if to += b.pos; to < 0 || to > len(code) {
					return 0, false
				}
				b.pos = to
			case 0x92: // DW_OP_bregx
				number := b.uleb()
				push(register(number) + uint64(b.sleb()))
			case 0x96: // DW_OP_nop
			default:
				y, x := pop(), pop()
				v, ok := binaryOperation(op, x, y)
				if !ok {
					return 0, false
				}
				push(v)
			}
		}
	}
	return pop(), !b.failed
}

// binaryOperation executes an operation on two values of the expression's stack. y was the top of the stack,
// and x was below it. binaryOperation returns false if the operation is not supported or impossible.
func binaryOperation(op byte, x, y uint64) (uint64, bool) {
	is := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	sx, sy := int64(x), int64(y)
	switch op {
	case 0x1a:
		return x & y, true
	case 0x1b:
		if y == 0 || y == ^uint64(0) { // -1 would overflow
			return -x, y != 0
		}
		return uint64(sx / sy), true
	case 0x1c:
		return x - y, true
	case 0x1e:
		return x * y, true
	case 0x21:
		return x | y, true
	case 0x22:
		return x + y, true
	case 0x24:
		return x << y, true
	case 0x25:
		return x >> y, true
	case 0x26:
		return uint64(sx >> y), true
	case 0x27:
		return x ^ y, true
	case 0x29:
		return is(x == y), true
	case 0x2a:
		return is(sx >= sy), true
	case 0x2b:
		return is(sx > sy), true
	case 0x2c:
		return is(sx <= sy), true
	case 0x2d:
		return is(sx < sy), true
	case 0x2e:
		return is(x != y), true
	}
	return 0, false
}

// A Memory reads the memory of a process. It fills all of dst with the bytes at address, or returns false.
type Memory func(address uint64, dst []byte) bool

// word reads a number of size bytes, from 1 to 8. It returns false if the memory cannot be read.
func (m Memory) word(address uint64, size int) (uint64, bool) {
	var buf [8]byte
	if size < 1 || size > 8 || !m(address, buf[:size]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(buf[:]), true
}
