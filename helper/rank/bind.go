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
A Binder gives the starter's thread the CPU mask and the memory policy of each rank in
turn. A child has what the thread had that forked it, and so do its threads and children
(placement.md 7.4, 7.5).

	        bindCPUs            bindMemory                releaseMemory
	own ------------> rank's ---------------> fork, exec --------------> ... --> Restore

The mask stays until a rank has another; the policy ends with the fork, or what the
starter allocates for the next rank would be taken from there. What a rank is not bound
to it has from the helper.
*/
type Binder struct {
	bindingCalls
	required    bool // a rank that cannot be bound does not start
	warn        func(text string)
	allowedMems func() []int

	cpus         []int              // to which the thread is bound; nil: it has its own mask
	actualCPUs   []int              // what the kernel made of it
	helperMask   unix.CPUSetDynamic // the helper's mask, once the thread was bound
	helperPolicy memPolicy
	policyKnown  bool // mems is the helper's policy

	denied                bool // no rank is bound: the kernel does not let us, and nobody has asked for it
	warnedCPUs, memDenied bool // was warned of
}

// NewBinder makes one that belongs to a starter. If a binding is required, a kernel that denies it is an error, else a warning. It calls
// warn at most once for CPUs and once for memory; everywhere lists the NUMA nodes from which this process itself has memory.
func NewBinder(required bool, warn func(text string), everywhere func() []int) *Binder {
	return &Binder{bindingCalls: realBindingCalls(), required: required, warn: warn, allowedMems: everywhere}
}

// bindCPUs binds the thread to the CPUs of a rank, nil for none, and returns those that
// the kernel then says it has. No system call is made if they are those of the rank
// before.
func (b *Binder) bindCPUs(cpus []int) (got []int, err error) {
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
		b.warn(fmt.Sprintf("ranks are bound to no CPUs and no memory: sched_setaffinity: %v, as where a container has a seccomp filter. To silence this: --bind-to none", err))
		return nil, nil
	}
	if err != nil {
		return nil, err // the thread has the mask it had
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
		b.warn(fmt.Sprintf("CPUs %s were to be bound, and the kernel leaves %s: the CPU set was changed meanwhile",
			idset.Text(cpus), idset.Text(b.actualCPUs)))
	}
	return b.actualCPUs, nil
}

// isDenied reports whether it is the kind of call that the kernel denies, and not these CPUs: seccomp filters answer so.
func isDenied(err error) bool {
	return err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS
}

// bindMemory lets what is forked until releaseMemory allocate from some NUMA nodes only,
// or in another mode, and returns those that the kernel then says it may. A kernel that refuses, as in many
// containers, is no reason not to start (placement.md 7.7).
func (b *Binder) bindMemory(mems []int, mode pin.MemMode) []int {
	if len(mems) == 0 && mode != pin.Local || b.memDenied || b.denied {
		return nil
	}
	err := b.readHelperPolicy()
	if err == nil {
		err = b.setPolicy(memPolicy{mpolOf(mode), cpuSetOf(mems)})
	}
	if err != nil && slices.Equal(mems, b.allowedMems()) {
		return nil // it makes no difference
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

// memoryText says what a kernel does not do.
func memoryText(mems []int, mode pin.MemMode) string {
	switch mode {
	case pin.Interleave:
		return "memory cannot be interleaved on NUMA nodes " + idset.Text(mems)
	case pin.Local:
		return "memory cannot be made local"
	}
	return "memory cannot be bound to NUMA node " + idset.Text(mems)
}

// readHelperPolicy notes the helper's own policy, once.
func (b *Binder) readHelperPolicy() (err error) {
	if !b.policyKnown {
		b.helperPolicy, err = b.getPolicy()
		b.policyKnown = err == nil
	}
	return err
}

// releaseMemory gives the thread the helper's policy again.
func (b *Binder) releaseMemory() {
	if !b.policyKnown {
		return
	}
	if b.helperPolicy.mode == unix.MPOL_DEFAULT {
		b.setPolicy(memPolicy{}) // it takes no nodes
		return
	}
	b.setPolicy(b.helperPolicy)
}

// Restore gives the thread the helper's mask again.
func (b *Binder) Restore() { b.bindCPUs(nil) }
