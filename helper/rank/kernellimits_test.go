//go:build linux

package rank

import (
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/limits"
)

func TestKernelLimits(t *testing.T) {
	all, failed := NewKernelLimits([]job.KernelLimit{{Resource: limits.RankTime, Max: int64(1500 * time.Millisecond)}, {Resource: limits.NoFile, Max: 7}})
	if failed != nil || len(all) != 2 || all[0].value != (unix.Rlimit{Cur: 2, Max: 7}) || all[1].value != (unix.Rlimit{Cur: 7, Max: 7}) {
		t.Errorf("%+v, %v", all, failed)
	}
	if got := rlimitOf(job.KernelLimit{Resource: limits.Core, Max: limits.Unlimited}); got != (unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}) {
		t.Errorf("unlimited is %+v", got)
	}
	// A limit that this host does not know is refused, and never silently accepted.
	for _, resource := range []limits.Resource{"files", limits.Mem} {
		if _, failed := NewKernelLimits([]job.KernelLimit{{Resource: resource, Max: 1}}); failed == nil || failed.Reason != "cannot set limit "+string(resource)+": the kernel of this host does not support this limit" {
			t.Errorf("%s: %v", resource, failed)
		}
	}
	refused := Rlimit{limits.NoFile, unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 1048576, Max: 1048576}}.setError("the hard limit is 4096")
	if refused.Reason != "cannot set limit nofile to 1048576: the hard limit is 4096" {
		t.Error(refused.Reason)
	}
	for _, test := range []struct {
		resource int
		value    uint64
		want     string
	}{
		{unix.RLIMIT_AS, 1 << 30, "1 GiB"}, {unix.RLIMIT_CPU, 95, "95 s"}, {unix.RLIMIT_NPROC, 1 << 12, "4096"}, {unix.RLIMIT_CORE, 0, "0 bytes"},
		{unix.RLIMIT_FSIZE, math.MaxUint64, "unlimited"},
	} {
		if got := limitText(test.resource, test.value); got != test.want {
			t.Errorf("%s: %q, want %q", limitName(test.resource), got, test.want)
		}
	}
	if os.Geteuid() != 0 {
		var own unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NOFILE, &own)
		if _, failed := NewKernelLimits([]job.KernelLimit{{Resource: limits.NoFile, Max: int64(own.Max) + 1}}); failed == nil {
			t.Error("more than the hard limit is not refused")
		}
	}
}

// A soft limit is removed if there is a kernel limit of the same resource.
func TestWithoutBounded(t *testing.T) {
	soft := []job.SoftLimit{{Resource: unix.RLIMIT_NOFILE, Soft: 1024}, {Resource: unix.RLIMIT_CORE, Soft: 0}}
	if left := WithoutBounded(soft, []job.KernelLimit{{Resource: limits.NoFile, Max: 4096}}); len(left) != 1 || left[0].Resource != unix.RLIMIT_CORE || len(soft) != 2 {
		t.Errorf("%v of %v", left, soft)
	}
}

// Each kernel limit of package limits exists here.
func TestEveryLimitOfTheKernelIsKnown(t *testing.T) {
	for _, what := range limits.All() {
		if _, known := rlimitResources[what]; known != what.IsKernelLimit() {
			t.Errorf("%s: known here %v, the kernel's %v", what, known, what.IsKernelLimit())
		}
	}
}
