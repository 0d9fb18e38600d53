package stack

// An Arch is a processor architecture.
type Arch int

// These are the supported architectures.
const (
	AMD64 Arch = iota
	ARM64
)

// registerCount is the number of registers that an unwinder tracks. arm64 needs 33: x0 to x30, sp and pc. amd64
// needs 17. Vector registers are not tracked.
const registerCount = 33

// A layout contains the DWARF numbers of an architecture's special registers, such as the stack pointer. Sources:
// System V ABI AMD64, figure 3.36, and DWARF for the Arm 64-bit Architecture (AADWARF64), section 4.1.
type layout struct {
	sp, fp        int
	returnAddress int // the column of the return address
	link          int // register with the return address of a leaf function; -1: none
	addressMask   uint64
}

var layouts = map[Arch]layout{
	AMD64: {sp: 7, fp: 6, returnAddress: 16, link: -1, addressMask: ^uint64(0)},
	ARM64: {sp: 31, fp: 29, returnAddress: 30, link: 30, addressMask: 1<<48 - 1}, // the bits above may authenticate a pointer
}

// Registers holds the registers of a thread by their DWARF numbers.
type Registers struct {
	PC            uint64
	ThreadPointer uint64 // pthread_self() of glibc and musl on amd64; 0: unknown
	value         [registerCount]uint64
	known         uint64 // bit N: value[N] is known
}

// Set sets the value of a register. It ignores registers that are not tracked.
func (r *Registers) Set(number int, value uint64) {
	if number >= 0 && number < registerCount {
		r.value[number] = value
		r.known |= 1 << number
	}
}

// Get returns the value of a register. It returns false if the value is unknown.
func (r *Registers) Get(number int) (uint64, bool) {
	if number < 0 || number >= registerCount {
		return 0, false
	}
	return r.value[number], r.known&(1<<number) != 0
}

// AtCall returns Registers in which only the stack pointer and the program counter are known.
func AtCall(a Arch, sp, pc uint64) (r Registers) {
	r.Set(layouts[a].sp, sp)
	r.PC = pc
	return r
}

// SP returns the stack pointer, or 0 if the stack pointer is unknown.
func (r *Registers) SP(a Arch) uint64 { return r.value[layouts[a].sp] }

// FromUser converts words to Registers. words is a struct user_regs_struct of amd64 or a user_pt_regs of arm64
// (arch/x86/include/asm/user_64.h, arch/arm64/include/uapi/asm/ptrace.h). ok is false if there are too few
// words.
func FromUser(a Arch, words []uint64) (r Registers, ok bool) {
	if a == ARM64 {
		if len(words) < 33 {
			return r, false
		}
		for i := range 32 {
			r.Set(i, words[i])
		}
		r.PC = words[32] & layouts[a].addressMask
		return r, true
	}
	if len(words) < 20 {
		return r, false
	}
	// r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp
	for i, number := range []int{15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, -1, -1, -1, 7} {
		r.Set(number, words[i])
	}
	r.PC = words[16]
	if len(words) > 21 {
		r.ThreadPointer = words[21] // fs_base
	}
	return r, true
}
