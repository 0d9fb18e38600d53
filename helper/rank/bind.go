//go:build linux

package rank

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"remshell/idset"
	"remshell/pin"
)

/*
A Binder gives the fork thread the CPU mask and the memory policy of each rank in turn. A child inherits both from
the thread that forks it, and passes them on to its threads and children (placement.md 7.4, 7.5).

	        bindCPUs            bindMemory                releaseMemory
	own ------------> rank's ---------------> fork, exec --------------> ... --> Restore

The mask stays until a rank with a different mask is started. The policy is reset after the fork; otherwise the fork
thread's own allocations for the next rank would follow it. A rank that is not bound has the helper's mask and policy.
*/
type Binder struct {
	bindingCalls
	required    bool // a rank that cannot be bound does not start
	warn        func(text string)
	allowedMems func() []int

	cpus         []int              // the mask that was set; nil: the thread has its own
	actualCPUs   []int              // the mask as the kernel reports it
	helperMask   unix.CPUSetDynamic // set before the thread is bound first
	helperPolicy memPolicy
	policyKnown  bool // the helper's policy was read

	denied                bool // the kernel forbids binding, and it is not required: no rank is bound
	warnedCPUs, memDenied bool // a warning was given
}

// NewBinder returns a Binder for one ForkThread. If the kernel forbids binding to CPUs, ranks fail to start if required
// is true; otherwise warn is called once. If memory cannot be bound, warn is called once in any case. allowedMems
// returns the NUMA nodes from which this process may allocate memory.
func NewBinder(required bool, warn func(text string), allowedMems func() []int) *Binder {
	return &Binder{bindingCalls: realBindingCalls(), required: required, warn: warn, allowedMems: allowedMems}
}

// bindCPUs binds the thread to a rank's CPUs, and returns the CPUs that the kernel then reports. If cpus is nil, the
// thread gets the helper's own CPUs, and the result is nil. bindCPUs makes no system call if the previous rank had the
// same CPUs.
func (b *Binder) bindCPUs(cpus []int) (bound []int, err error) {
	if b.denied {
		return nil, nil
	}
	if slices.Equal(cpus, b.cpus) {
		return b.actualCPUs, nil
	}
	if b.helperMask == nil {
		if b.helperMask, err = b.getCPUs(); err != nil {
			return nil, err
		}
	}
	mask := b.helperMask
	if len(cpus) > 0 {
		mask = cpuSetOf(cpus)
	}
	err = b.setCPUs(mask)
	if isDenied(err) && !b.required {
		b.denied = true
		b.warn(fmt.Sprintf("cannot bind ranks to CPUs or memory: sched_setaffinity: %v (perhaps because of a seccomp filter of a container); to avoid this warning, use --bind-to none", err))
		return nil, nil
	}
	if err != nil {
		return nil, err // the thread keeps the mask that it had
	}
	if b.cpus, b.actualCPUs = cpus, nil; len(cpus) == 0 {
		return nil, nil
	}
	now, err := b.getCPUs()
	if err != nil {
		return nil, err
	}
	b.actualCPUs = cpuNumbers(now)
	if !slices.Equal(b.actualCPUs, cpus) && !b.warnedCPUs {
		b.warnedCPUs = true
		b.warn(fmt.Sprintf("cannot bind a rank to CPUs %s: the kernel now allows only %s of these CPUs, because the CPU set of the rank has changed",
			idset.Text(cpus), idset.Text(b.actualCPUs)))
	}
	return b.actualCPUs, nil
}

// isDenied reports whether the kernel forbids the system call altogether, as seccomp filters do, and not only binding
// to certain CPUs.
func isDenied(err error) bool {
	return err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS
}

// bindMemory sets the memory policy for processes that are forked until releaseMemory is called. It returns
// the NUMA nodes that the kernel then allows. If the kernel refuses the policy, as in many containers, the
// rank is started nevertheless (placement.md 7.7).
func (b *Binder) bindMemory(mems []int, mode pin.MemMode) []int {
	if len(mems) == 0 && mode != pin.Local || b.memDenied || b.denied {
		return nil
	}
	err := b.readHelperPolicy()
	if err == nil {
		err = b.setPolicy(memPolicy{mpolOf(mode), cpuSetOf(mems)})
	}
	if err != nil && slices.Equal(mems, b.allowedMems()) {
		return nil // the policy would change nothing
	}
	if err != nil {
		b.memDenied = true
		b.warn(memoryText(mems, mode) + ": " + err.Error())
		return nil
	}
	now, err := b.getPolicy()
	if err != nil || now.mode != mpolOf(mode) {
		return nil
	}
	return cpuNumbers(now.nodes)
}

// memoryText returns a text for a warning that names the memory policy which the kernel has refused.
func memoryText(mems []int, mode pin.MemMode) string {
	switch mode {
	case pin.Interleave:
		return "cannot interleave the memory of ranks on NUMA nodes " + idset.Text(mems)
	case pin.Local:
		return "cannot bind the memory of ranks to their own NUMA nodes"
	}
	return "cannot bind the memory of ranks to NUMA node " + idset.Text(mems)
}

// readHelperPolicy reads the helper's own memory policy. Only the first call reads it.
func (b *Binder) readHelperPolicy() (err error) {
	if !b.policyKnown {
		b.helperPolicy, err = b.getPolicy()
		b.policyKnown = err == nil
	}
	return err
}

// releaseMemory sets the memory policy of the calling thread back to the helper's.
func (b *Binder) releaseMemory() {
	if !b.policyKnown {
		return
	}
	if b.helperPolicy.mode == unix.MPOL_DEFAULT {
		b.setPolicy(memPolicy{}) // a policy without nodes
		return
	}
	b.setPolicy(b.helperPolicy)
}

// Restore sets the CPU mask of the calling thread back to the helper's.
func (b *Binder) Restore() { b.bindCPUs(nil) }
