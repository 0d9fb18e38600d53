package usage

import (
	"fmt"
	"time"

	"remshell/job"
)

// formatResources returns the four lines about a job's usage that the accounting of a batch system has
// (rule RM-52). Times are rounded down to seconds, sizes rounded up to KiB. vmem is unknown if there were
// no samples. mem is unknown if no process ran long enough to be measured.
func formatResources(u job.UsageTotal) string {
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
