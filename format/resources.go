package format

import (
	"fmt"
	"time"

	"remshell/job"
)

// Resources are the four lines in which a batch system's accounting has what a job used: times
// rounded down to seconds, sizes up to KiB (RM-52). What was not sampled has no vmem, and no mem where no process lived
// until somebody could look.
func Resources(u job.UsageTotal) string {
	mem, vmem := formatKiB(u.Mem), "unknown"
	if u.Mem == 0 {
		mem = "unknown"
	}
	if u.Sampled {
		vmem = formatKiB(u.VMem)
	}
	return fmt.Sprintf("resources_used.cput = %s\nresources_used.mem = %s\nresources_used.vmem = %s\nresources_used.walltime = %s\n",
		wholeSeconds(u.CPU), mem, vmem, wholeSeconds(u.Wall))
}

func wholeSeconds(d time.Duration) string { return job.FormatClock(d.Truncate(time.Second)) }

func formatKiB(bytes int64) string {
	whole := bytes / 1024
	if bytes%1024 > 0 {
		whole++
	}
	return fmt.Sprint(whole, "kb")
}
