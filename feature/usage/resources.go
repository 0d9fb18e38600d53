package usage

import (
	"fmt"
	"time"

	"remshell/job"
)

// formatResources returns four lines with a job's usage, as in the accounting of a batch system (rule RM-52).
// Times are rounded down to seconds, and sizes are rounded up to KiB. The line vmem says that its value is
// unknown if there were no samples. So does the line mem if no process ran long enough to be measured.
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
