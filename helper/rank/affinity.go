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

// cpuSetOf returns a set of CPUs or NUMA nodes, as long as its largest number needs. It is nil if numbers is empty.
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

// mpolOf returns the number that the kernel uses for a mode of memory policy.
func mpolOf(mode pin.MemMode) int {
	switch mode {
	case pin.Interleave:
		return unix.MPOL_INTERLEAVE
	case pin.Local:
		return unix.MPOL_LOCAL
	}
	return unix.MPOL_BIND
}

// A bindingCalls holds the system calls of a Binder; all are for the calling thread. Tests replace them.
type bindingCalls struct {
	setCPUs   func(unix.CPUSetDynamic) error
	getCPUs   func() (unix.CPUSetDynamic, error)
	setPolicy func(memPolicy) error
	getPolicy func() (memPolicy, error)
}

// realBindingCalls returns the real system calls.
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

// getAffinity is sched_getaffinity(2). The system call refuses a buffer too short for all CPUs that this kernel may
// have, so getAffinity tries larger ones.
func getAffinity() (unix.CPUSetDynamic, error) {
	for most := 1 << 10; ; most *= 4 {
		cpus := unix.NewCPUSet(most)
		if err := unix.SchedGetaffinityDynamic(0, cpus); err != unix.EINVAL || most > 1<<20 {
			return cpus, err
		}
	}
}

// setPolicy is set_mempolicy(2), whose last argument is one more than the number of bits. unix.SetMemPolicyDynamic
// passes the number of bytes instead, so the kernel would ignore the higher nodes.
func setPolicy(p memPolicy) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(p.mode),
		uintptr(unsafe.Pointer(unsafe.SliceData(p.nodes))), uintptr(len(p.nodes)*wordBits+1))
	return errnoErr(errno)
}

// getPolicy is get_mempolicy(2), which package unix lacks. Its 1,024 bits suffice: no kernel is built for more NUMA
// nodes.
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
