package usage

import (
	"testing"
	"time"

	"remshell/job"
)

// Example 20 of the page, and cases of rounding.
func TestResources(t *testing.T) {
	for _, test := range []struct {
		used job.UsageTotal
		want string
	}{
		{job.UsageTotal{UsageSample: job.UsageSample{CPU: 9698700 * time.Millisecond, Mem: 141844480, VMem: 256311296}, Wall: 714200 * time.Millisecond, Sampled: true},
			"resources_used.cput = 02:41:38\nresources_used.mem = 138520kb\nresources_used.vmem = 250304kb\nresources_used.walltime = 00:11:54\n"},
		{job.UsageTotal{UsageSample: job.UsageSample{CPU: 999 * time.Millisecond, Mem: 1}, Wall: 100 * time.Hour},
			"resources_used.cput = 00:00:00\nresources_used.mem = 1kb\nresources_used.vmem = unknown\nresources_used.walltime = 100:00:00\n"},
		{job.UsageTotal{}, "resources_used.cput = 00:00:00\nresources_used.mem = unknown\nresources_used.vmem = unknown\nresources_used.walltime = 00:00:00\n"},
	} {
		if got := formatResources(test.used); got != test.want {
			t.Errorf("got\n%swant\n%s", got, test.want)
		}
	}
}
