//go:build linux

package helper

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"remshell/pin"
)

// A set is a set of small numbers as the kernel takes it: an array of unsigned long. It
// is as long as its largest number asks; unix.CPUSet ends at 1,024.
type set []uintptr

const wordBits = bits.UintSize

func setOf(numbers []int) set {
	if len(numbers) == 0 {
		return nil
	}
	s := make(set, slices.Max(numbers)/wordBits+1)
	for _, n := range numbers {
		s[n/wordBits] |= 1 << (n % wordBits)
	}
	return s
}

// numbers lists the members, ascending; nil if there are none.
func (s set) numbers() (list []int) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			list = append(list, i*wordBits+bits.TrailingZeros(uint(word)))
		}
	}
	return list
}

// A policy is the memory policy of a thread (set_mempolicy(2)).
type policy struct {
	mode  int
	nodes set
}

// From linux/mempolicy.h.
const (
	modeDefault    = 0
	modeBind       = 2
	modeInterleave = 3
	modeLocal      = 4
)

// modeOf is the kernel's number of a mode.
func modeOf(mode pin.MemMode) int {
	switch mode {
	case pin.Interleave:
		return modeInterleave
	case pin.Local:
		return modeLocal
	}
	return modeBind
}

// A kernel is what a binder asks of the system, for the calling thread alone.
type kernel struct {
	setCPUs   func(set) error
	getCPUs   func() (set, error)
	setPolicy func(policy) error
	getPolicy func() (policy, error)
}

// thisKernel is the one we run on.
func thisKernel() kernel { return kernel{setAffinity, getAffinity, setPolicy, getPolicy} }

// setAffinity is sched_setaffinity(2). What the set is too short for counts as absent.
func setAffinity(cpus set) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0,
		uintptr(len(cpus))*unsafe.Sizeof(cpus[0]), uintptr(unsafe.Pointer(unsafe.SliceData(cpus))))
	return failure(errno)
}

// getAffinity is sched_getaffinity(2), which refuses a buffer that is too short for all
// CPUs this kernel may have.
func getAffinity() (set, error) {
	for words := 1024 / wordBits; ; words *= 4 {
		cpus := make(set, words)
		_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0,
			uintptr(words)*unsafe.Sizeof(cpus[0]), uintptr(unsafe.Pointer(unsafe.SliceData(cpus))))
		if errno != unix.EINVAL || words > 1<<20/wordBits {
			return cpus, failure(errno)
		}
	}
}

// setPolicy is set_mempolicy(2), whose last argument is one more than the number of bits.
func setPolicy(p policy) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(p.mode),
		uintptr(unsafe.Pointer(unsafe.SliceData(p.nodes))), uintptr(len(p.nodes)*wordBits+1))
	return failure(errno)
}

// getPolicy is get_mempolicy(2). No kernel is built for more than 1,024 NUMA nodes.
func getPolicy() (policy, error) {
	var mode int32
	nodes := make(set, 1024/wordBits)
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)),
		uintptr(unsafe.Pointer(unsafe.SliceData(nodes))), uintptr(len(nodes)*wordBits+1), 0, 0, 0)
	return policy{int(mode), nodes}, failure(errno)
}

func failure(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

/*
A binder gives the starter's thread the CPU mask and the memory policy of each rank in
turn. A child has what the thread had that forked it, and so do its threads and children
(placement.md 7.4, 7.5).

	        bindCPUs            bindMemory                releaseMemory
	own ------------> rank's ---------------> fork, exec --------------> ... --> restore

The mask stays until a rank has another; the policy ends with the fork, or what the
starter allocates for the next rank would be taken from there. What a rank is not bound
to it has from the helper.
*/
type binder struct {
	kernel
	warn       func(text string) // called at most once for CPUs and once for memory
	everywhere func() []int      // the NUMA nodes from which the helper itself has memory

	cpus  []int // to which the thread is bound; nil: it has its own mask
	got   []int // what the kernel made of it
	own   set   // the helper's mask, once the thread was bound
	mems  policy
	asked bool // mems is the helper's policy

	narrowed, unbound bool // was warned of
}

// bindCPUs binds the thread to the CPUs of a rank, nil for none, and returns those that
// the kernel then says it has. No system call is made if they are those of the rank
// before.
func (b *binder) bindCPUs(cpus []int) (got []int, err error) {
	if slices.Equal(cpus, b.cpus) {
		return b.got, nil
	}
	if b.own == nil {
		if b.own, err = b.getCPUs(); err != nil {
			return nil, err
		}
	}
	mask := b.own
	if len(cpus) > 0 {
		mask = setOf(cpus)
	}
	if err := b.setCPUs(mask); err != nil {
		return nil, err // the thread has the mask it had
	}
	if b.cpus, b.got = cpus, nil; len(cpus) == 0 {
		return nil, nil
	}
	now, err := b.getCPUs()
	if err != nil {
		return nil, err
	}
	b.got = now.numbers()
	if !slices.Equal(b.got, cpus) && !b.narrowed {
		b.narrowed = true
		b.warn(fmt.Sprintf("CPUs %s were to be bound, and the kernel leaves %s: the CPU set was changed meanwhile",
			pin.Text(cpus), pin.Text(b.got)))
	}
	return b.got, nil
}

// bindMemory lets what is forked until releaseMemory allocate from some NUMA nodes only,
// or in another mode, and returns those that the kernel then says it may. A kernel that refuses, as in many
// containers, is no reason not to start (placement.md 7.7).
func (b *binder) bindMemory(mems []int, mode pin.MemMode) []int {
	if len(mems) == 0 && mode != pin.Local || b.unbound {
		return nil
	}
	err := b.askPolicy()
	if err == nil {
		err = b.setPolicy(policy{modeOf(mode), setOf(mems)})
	}
	if err != nil && slices.Equal(mems, b.everywhere()) {
		return nil // it makes no difference
	}
	if err != nil {
		b.unbound = true
		b.warn(memoryText(mems, mode) + ": " + err.Error())
		return nil
	}
	now, err := b.getPolicy()
	if err != nil || now.mode != modeOf(mode) {
		return nil
	}
	return now.nodes.numbers()
}

// memoryText says what a kernel does not do.
func memoryText(mems []int, mode pin.MemMode) string {
	switch mode {
	case pin.Interleave:
		return "memory cannot be interleaved on NUMA nodes " + pin.Text(mems)
	case pin.Local:
		return "memory cannot be made local"
	}
	return "memory cannot be bound to NUMA node " + pin.Text(mems)
}

// askPolicy notes the helper's own policy, once.
func (b *binder) askPolicy() (err error) {
	if !b.asked {
		b.mems, err = b.getPolicy()
		b.asked = err == nil
	}
	return err
}

// releaseMemory gives the thread the helper's policy again.
func (b *binder) releaseMemory() {
	if !b.asked {
		return
	}
	if b.mems.mode == modeDefault {
		b.setPolicy(policy{}) // it takes no nodes
		return
	}
	b.setPolicy(b.mems)
}

// restore gives the thread the helper's mask again.
func (b *binder) restore() { b.bindCPUs(nil) }
