package reserve

import (
	"strings"
	"testing"

	"remshell/job"
)

// The environment tells ranks their memory (aprun.md 4).
func TestWhatRanksAreToldOfMemory(t *testing.T) {
	const hugeVar = " MPIEXEC_HUGEPAGES="
	for _, test := range []struct {
		name             string
		requested, total int64
		ranks            int
		huge             job.HugePageRequest
		want             string
	}{
		{"an even part", 0, 8<<30 + 5<<20, 4, "", "MPIEXEC_MEM_PER_RANK=2049"},
		{"rounded down", 0, 1<<20 - 1, 1, "", "MPIEXEC_MEM_PER_RANK=0"},
		{"nothing is known", 0, 0, 4, "", ""},
		{"as requested", 3 << 30, 8 << 30, 4, "", "MPIEXEC_MEM_PER_RANK=3072"},
		{"as requested, total unknown", 512 << 20, 0, 1, "", "MPIEXEC_MEM_PER_RANK=512"},
		{"huge pages are preferred", 1 << 30, 0, 2, job.HugePagesPreferred, "MPIEXEC_MEM_PER_RANK=1024" + hugeVar + "want"},
		{"huge pages are required", 1 << 30, 8 << 30, 2, job.HugePagesRequired, "MPIEXEC_MEM_PER_RANK=1024" + hugeVar + "need"},
	} {
		var req job.Request
		req.Memory, req.HugePages = test.requested, test.huge
		if got := strings.Join(memoryVariables(req, test.total, test.ranks), " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
