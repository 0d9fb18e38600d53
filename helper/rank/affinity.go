//go:build linux

package rank

import (
	"math/bits"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"remshell/pin"
)

const wordBits = bits.UintSize

// cpuSetOf converts numbers of CPUs or NUMA nodes to a set. The set is only as long as the largest number
// requires. It is nil if numbers is empty.
func cpuSetOf(numbers []int) unix.CPUSetDynamic {
	if len(numbers) == 0 {
		return nil
	}
	s := unix.NewCPUSet(slices.Max(numbers) + 1)
	for _, n := range numbers {
		s.Set(n)
	}
	return s
}

// cpuNumbers returns the members of a set in ascending order, or nil if it is empty.
func cpuNumbers(s unix.CPUSetDynamic) (list []int) {
	for n, left := 0, s.Count(); left > 0; n++ {
		if s.IsSet(n) {
			list = append(list, n)
			left--
		}
	}
	return list
}

// A memPolicy is the memory policy of a thread (set_mempolicy(2)).
type memPolicy struct {
	mode  int
	nodes unix.CPUSetDynamic
}

// mpolOf converts a memory policy to the number that the kernel uses for it.
func mpolOf(mode pin.MemMode) int {
	switch mode {
	case pin.Interleave:
		return unix.MPOL_INTERLEAVE
	case pin.Local:
		return unix.MPOL_LOCAL
	}
	return unix.MPOL_BIND
}

// A bindingCalls contains the system calls that a Binder makes. All of them affect the calling thread. Tests replace
// them.
type bindingCalls struct {
	setCPUs   func(unix.CPUSetDynamic) error
	getCPUs   func() (unix.CPUSetDynamic, error)
	setPolicy func(memPolicy) error
	getPolicy func() (memPolicy, error)
}

// realBindingCalls returns functions that call the kernel. Tests use other functions.
func realBindingCalls() bindingCalls {
	return bindingCalls{
		setCPUs:   func(cpus unix.CPUSetDynamic) error { return unix.SchedSetaffinityDynamic(0, cpus) },
		getCPUs:   getAffinity,
		setPolicy: setPolicy,
		getPolicy: getPolicy,
	}
}

// Affinity returns the CPUs that the calling thread may use.
func Affinity() ([]int, error) {
	cpus, err := getAffinity()
	return cpuNumbers(cpus), err
}

// getAffinity calls sched_getaffinity(2). The system call fails if the buffer is too short for all CPUs that
// this kernel may have, so getAffinity tries larger buffers.
func getAffinity() (unix.CPUSetDynamic, error) {
	for most := 1 << 10; ; most *= 4 {
		cpus := unix.NewCPUSet(most)
		if err := unix.SchedGetaffinityDynamic(0, cpus); err != unix.EINVAL || most > 1<<20 {
			return cpus, err
		}
	}
}

// setPolicy calls set_mempolicy(2). The last argument of the system call is one more than the number of bits.
// unix.SetMemPolicyDynamic cannot be used: it passes the number of bytes, so the kernel would ignore the higher
// NUMA nodes.
func setPolicy(p memPolicy) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(p.mode),
		uintptr(unsafe.Pointer(unsafe.SliceData(p.nodes))), uintptr(len(p.nodes)*wordBits+1))
	return errnoErr(errno)
}

// getPolicy calls get_mempolicy(2), which package unix lacks. It reads 1,024 bits, the largest number of NUMA
// nodes for which a kernel can be built.
func getPolicy() (memPolicy, error) {
	var mode int32
	nodes := unix.NewCPUSet(1024)
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)),
		uintptr(unsafe.Pointer(unsafe.SliceData(nodes))), uintptr(len(nodes)*wordBits+1), 0, 0, 0)
	return memPolicy{int(mode), nodes}, errnoErr(errno)
}

func errnoErr(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
