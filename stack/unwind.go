package stack

import "slices"

// A Mapping is a range of a process's executable memory. It is usually a mapped part of an ELF file.
type Mapping struct {
	Start, End uint64 // addresses in the process; End is the first address after the mapping
	Offset     uint64 // of Start in the file
	Path       string // name of the file, or "" for memory without a file
	Image      *Image // the file; nil: none, or it cannot be read
}

// AddressOf returns the address at which a symbol of the mapping's file is in the process. It returns 0 if the mapping
// has no file.
func (m *Mapping) AddressOf(s Symbol) uint64 {
	if m.Image == nil {
		return 0
	}
	start, ok := m.Image.addressAt(m.Offset)
	if !ok {
		return 0
	}
	return s.Address - start + m.Start
}

// An Address is one frame of a stack, before its function has been looked up. The field Address is an address in the
// file of Mapping. In the frame of a caller, that address is inside the call instruction, not after it.
type Address struct {
	PC      uint64
	Mapping *Mapping // nil: no mapped file
	Address uint64   // in Mapping.Image; 0 without one
}

// find returns the mapping that contains an address, or nil if there is none. mappings must be sorted by address.
func find(mappings []Mapping, pc uint64) *Mapping {
	i, _ := slices.BinarySearchFunc(mappings, pc, func(m Mapping, pc uint64) int {
		if m.End <= pc {
			return -1
		}
		return 1
	})
	if i == len(mappings) || pc < mappings[i].Start {
		return nil
	}
	return &mappings[i]
}

// Unwind returns the frames of a stack, innermost first. mappings must be sorted by address. Unwind stops at the
// outermost frame, after MaxFrames frames, or when it cannot find the caller.
func Unwind(a Arch, regs Registers, mem Memory, mappings []Mapping) (frames []Address) {
	reads := 0
	bounded := func(address uint64, to []byte) bool {
		reads++
		return reads <= maxReads && mem(address, to)
	}
	u := unwinder{arch: layouts[a], amd64: a == AMD64, mem: bounded, mappings: mappings}
	for exact := true; len(frames) < MaxFrames; {
		at := u.locate(regs.PC, exact)
		frames = append(frames, at)
		next, signal, ok := u.step(regs, at, len(frames) == 1)
		if !ok || next.PC == 0 {
			break
		}
		if sp, before := next.value[u.arch.sp], regs.value[u.arch.sp]; !signal && sp <= before && len(frames) > 1 {
			break // the stack grows downwards: a loop, or nonsense
		}
		regs, exact = next, signal
	}
	return frames
}

type unwinder struct {
	arch     layout
	amd64    bool
	mem      Memory
	mappings []Mapping
}

// locate returns pc as an Address, with the mapping that contains pc and the address in the mapped file. exact is true
// if pc is the address of an instruction, and false if pc is the return address after a call.
func (u *unwinder) locate(pc uint64, exact bool) Address {
	inside := pc
	if !exact {
		inside--
	}
	a := Address{PC: pc, Mapping: find(u.mappings, inside)}
	if a.Mapping != nil && a.Mapping.Image != nil {
		a.Address, _ = a.Mapping.Image.addressAt(inside - a.Mapping.Start + a.Mapping.Offset)
	}
	return a
}

// step returns the registers of the caller of the frame with the registers regs. signal is true if the kernel has made
// this frame to deliver a signal. In that case the caller's address is the address of an instruction, not a return
// address. ok is false if the registers cannot be determined.
func (u *unwinder) step(regs Registers, at Address, innermost bool) (next Registers, signal, ok bool) {
	if at.Address != 0 {
		if f := at.Mapping.Image.findFDE(at.Address); f != nil {
			if r, valid := f.rowAt(at.Address); valid {
				next, ok = u.apply(regs, f, r)
				return next, f.signal, ok
			}
			return next, false, false
		}
	}
	if at.Mapping == nil && innermost { // a call through a bad pointer
		return u.returnFromLeaf(regs)
	}
	byPointer, ok := u.byFramePointer(regs)
	if next, found := u.byScan(regs, at, byPointer.value[u.arch.sp]); found {
		return next, false, true
	}
	return byPointer, false, ok
}

// apply applies the unwinding rules in r and returns the registers of the caller. ok is false if these cannot be
// determined.
func (u *unwinder) apply(regs Registers, f *fde, r row) (next Registers, ok bool) {
	column := int(min(f.returnAddress, registerCount))
	evaluateIn := func(code []byte, initial ...uint64) (uint64, bool) {
		pcColumn := -1
		if u.amd64 {
			pcColumn = u.arch.returnAddress
		}
		return evaluate(code, &regs, u.mem, pcColumn, regs.PC, initial...)
	}
	var cfa uint64
	switch r.cfa.kind {
	case ruleRegister:
		base, known := regs.Get(int(min(uint64(r.cfa.number), registerCount)))
		if !known {
			return next, false
		}
		cfa = base + uint64(r.cfaOffset)
	case ruleValExpression:
		if cfa, ok = evaluateIn(r.cfa.expression); !ok {
			return next, false
		}
	default:
		return next, false
	}
	next = regs
	next.Set(u.arch.sp, cfa)
	for number, rule := range r.registers {
		if rule.kind == ruleUnset || rule.kind == ruleSame {
			continue
		}
		value, known := uint64(0), true
		switch rule.kind {
		case ruleUndefined:
			known = false
		case ruleOffset:
			value, known = u.mem.word(cfa+uint64(rule.number), 8)
		case ruleValOffset:
			value = cfa + uint64(rule.number)
		case ruleRegister:
			value, known = regs.Get(int(min(uint64(rule.number), registerCount)))
		case ruleExpression:
			if value, known = evaluateIn(rule.expression, cfa); known {
				value, known = u.mem.word(value, 8)
			}
		case ruleValExpression:
			value, known = evaluateIn(rule.expression, cfa)
		}
		if next.Set(number, value); !known {
			next.known &^= 1 << number
		}
	}
	back, known := next.Get(column)
	if u.amd64 && (r.registers[u.arch.returnAddress].kind == ruleUnset || r.registers[u.arch.returnAddress].kind == ruleSame) {
		known = false // the outermost frame
	}
	if !known {
		return next, false
	}
	next.PC = back & u.arch.addressMask
	if u.amd64 {
		next.known &^= 1 << u.arch.returnAddress
	}
	return next, true
}

// byFramePointer returns the registers of the caller of a function that keeps a frame pointer. On both architectures,
// the frame pointer points to the saved frame pointer of the caller, and the next word is the return address. ok is
// false if these two values are not plausible.
func (u *unwinder) byFramePointer(regs Registers) (next Registers, ok bool) {
	fp, known := regs.Get(u.arch.fp)
	if !known || fp == 0 || fp%8 != 0 || fp < regs.value[u.arch.sp] {
		return next, false
	}
	before, ok1 := u.mem.word(fp, 8)
	back, ok2 := u.mem.word(fp+8, 8)
	if back &= u.arch.addressMask; !ok1 || !ok2 || find(u.mappings, back) == nil {
		return next, false
	}
	next.Set(u.arch.fp, before)
	next.Set(u.arch.sp, fp+16)
	next.PC = back
	return next, true
}

// scanWords is the maximum number of words of a stack that are searched for a return address.
const scanWords = 512

// byScan returns the registers of the caller of a function that has neither call frame information nor a frame
// pointer, such as the functions of musl. As the return address, it takes the first word of the stack that is
// an address after a call. This is a guess, since words may be left from earlier calls.
//
// If end is not 0, it is the end of the frame to which the frame pointer points, and byScan reads only words below end.
// That frame is the caller's only if one of these words is an address after a call in another file than at.Mapping. If
// there is no such word, byScan returns false.
func (u *unwinder) byScan(regs Registers, at Address, end uint64) (next Registers, ok bool) {
	sp, known := regs.Get(u.arch.sp)
	if !known || sp%8 != 0 || end != 0 && at.Mapping == nil {
		return next, false
	}
	for word := sp; word < sp+8*scanWords && (end == 0 || word < end); word += 8 {
		back, readable := u.mem.word(word, 8)
		if !readable {
			return next, false
		}
		back &= u.arch.addressMask
		from := find(u.mappings, back-1)
		if from == nil || ok && from.Path == at.Mapping.Path || !u.isBehindCall(back) {
			continue
		}
		if !ok {
			next, ok = regs, true
			next.PC = back
			next.Set(u.arch.sp, word+8)
		}
		if end == 0 || from.Path != at.Mapping.Path {
			return next, true
		}
	}
	return next, false
}

// isBehindCall reports whether the instruction before an address may be a call.
func (u *unwinder) isBehindCall(address uint64) bool {
	if !u.amd64 {
		code, ok := u.mem.word(address-4, 4)
		return ok && address%4 == 0 && (code>>26 == 0x25 || code&0xfffffc1f == 0xd63f0000) // BL, BLR
	}
	var code [7]byte
	if !u.mem(address-7, code[:]) {
		return false
	}
	if code[2] == 0xe8 { // call rel32
		return true
	}
	for i := range 6 { // call r/m64: FF /2 of the right size
		if code[i] == 0xff && code[i+1]>>3&7 == 2 && operandSize(code[i+1]) == 7-i-1 {
			return true
		}
	}
	return false
}

// operandSize returns the size in bytes of an amd64 operand, which consists of the ModRM byte, the SIB byte and the
// displacement. The size may be wrong if the SIB byte has no base.
func operandSize(modRM byte) int {
	mode, rm := modRM>>6, modRM&7
	size := 1
	if mode != 3 && rm == 4 {
		size++
	}
	switch {
	case mode == 1:
		size++
	case mode == 2, mode == 0 && rm == 5:
		size += 4
	}
	return size
}

// returnFromLeaf returns the registers of the caller of a function that has not changed the stack yet. signal is always
// false. ok is false if the return address cannot be read.
func (u *unwinder) returnFromLeaf(regs Registers) (next Registers, signal, ok bool) {
	next = regs
	if u.arch.link >= 0 {
		next.PC, ok = regs.Get(u.arch.link)
		next.PC &= u.arch.addressMask
		return next, false, ok
	}
	sp, known := regs.Get(u.arch.sp)
	next.PC, ok = u.mem.word(sp, 8)
	next.Set(u.arch.sp, sp+8)
	return next, false, ok && known
}
