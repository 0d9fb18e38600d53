package supervise

import (
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/limits"
)

// Usage above a limit ends the job with the text of RM-56. Usage equal to the limit does not.
func TestLimits(t *testing.T) {
	const mb = 1 << 20
	at := func(node int, s job.UsageSample, ranks ...job.RankUsageSample) SampledUsage {
		return SampledUsage{node, s, ranks}
	}
	rank := func(n int, mem int64) job.RankUsageSample {
		return job.RankUsageSample{Rank: n, UsageSample: job.UsageSample{Mem: mem}}
	}
	for _, test := range []struct {
		name   string
		bounds limits.Map
		events []any
		want   string // empty: the job goes on
	}{
		{"as much", limits.Map{limits.Mem: 100}, []any{at(0, job.UsageSample{Mem: 60}), at(1, job.UsageSample{Mem: 40})}, ""},
		{"more, together", limits.Map{limits.Mem: 99}, []any{at(0, job.UsageSample{Mem: 60}), at(1, job.UsageSample{Mem: 40})}, "mem 100 exceeded limit 99"},
		{"not at one moment", limits.Map{limits.Mem: 340}, []any{at(0, job.UsageSample{Mem: 100}), at(1, job.UsageSample{Mem: 200}), after(time.Second),
			at(0, job.UsageSample{Mem: 300}), at(1, job.UsageSample{Mem: 40})}, ""},
		{"vmem", limits.Map{limits.VMem: 30 * mb, limits.Mem: 300}, []any{at(0, job.UsageSample{Mem: 1, VMem: 47570944})}, "vmem 47570944 exceeded limit 31457280"},
		{"time", limits.Map{limits.CPUTime: int64(time.Second)}, []any{at(0, job.UsageSample{CPU: time.Second + 1})}, "cput 2 exceeded limit 1"},
		{"a host", limits.Map{limits.HostMem: 100}, []any{at(0, job.UsageSample{Mem: 100}), at(1, job.UsageSample{Mem: 101})}, "mem 101 exceeded limit 100 on host b"},
		{"a host's address space", limits.Map{limits.HostVMem: 100}, []any{at(1, job.UsageSample{VMem: 101})}, "vmem 101 exceeded limit 100 on host b"},
		{"a rank", limits.Map{limits.RankMem: 100}, []any{at(1, job.UsageSample{Mem: 201}, rank(2, 100), rank(3, 101))}, "pmem 101 exceeded limit 100 by rank 3 on host b"},
		{"wall time", limits.Map{limits.WallTime: int64(time.Hour)}, []any{after(time.Hour + 1), Tick{}}, "walltime 3601 exceeded limit 3600"},
		{"not yet", limits.Map{limits.WallTime: int64(time.Hour)}, []any{after(time.Hour), Tick{}}, ""},
		{"no limit", nil, []any{at(0, job.UsageSample{CPU: 1 << 60, Mem: 1 << 60, VMem: 1 << 60})}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			state := NewState(twoNodes, Policy{ResourceLimits: test.bounds}, now)
			cries := ""
			for _, e := range test.events {
				if wait, is := e.(after); is {
					now = now.Add(time.Duration(wait))
					continue
				}
				for _, action := range state.Step(e.(Event), now) {
					if cry, is := action.(BatchLine); is {
						cries += cry.Text
					}
				}
			}
			if test.want == "" {
				if cries != "" || state.Cause != nil {
					t.Errorf("it cries %q", cries)
				}
				return
			}
			if cries != "=>> mpiexec: job killed: "+test.want || state.ExitCode() != job.ExitTimeout || state.Phase != Ending || state.Cause.Reason() != "limit" {
				t.Errorf("it cries %q, exit code %d", cries, state.ExitCode())
			}
			if report := state.Report(func(int) RankProfile { return RankProfile{} }); !strings.HasPrefix(report, state.Cause.Text+"\n") || !strings.Contains(report, " used") || strings.Contains(report, "exceeded") {
				t.Errorf("the report is %q", report)
			}
			if again := state.Step(at(0, job.UsageSample{Mem: 1 << 50}), now); len(again) > 0 {
				t.Errorf("it cries again: %v", again)
			}
		})
	}
}

// The smaller of -timeout and the walltime limit counts, each with its own text.
func TestTimeoutBesideALimit(t *testing.T) {
	for _, test := range []struct {
		timeout, wall time.Duration
		want          string
	}{
		{time.Minute, time.Hour, "the job ran longer than -timeout 1m0s"},
		{time.Hour, time.Minute, "walltime: 60.001 s used, 60 s allowed by --limit"},
	} {
		now := time.Unix(1_000_000, 0)
		state := NewState(twoNodes, Policy{Timeout: test.timeout, ResourceLimits: limits.Map{limits.WallTime: int64(test.wall)}, LimitOrigins: limits.Origins{limits.WallTime: "--limit"}}, now)
		state.Step(Tick{}, now.Add(time.Minute+1))
		if state.Cause == nil || state.Cause.Text != test.want {
			t.Errorf("%v, want %s", state.Cause, test.want)
		}
	}
}

// Every sampled limit is enforced.
func TestEverySampledLimitCounts(t *testing.T) {
	most := job.UsageSample{CPU: 1 << 60, Mem: 1 << 60, VMem: 1 << 60}
	for _, what := range limits.All() {
		if !what.IsSampled() {
			continue
		}
		now := time.Unix(1_000_000, 0)
		state := NewState(twoNodes, Policy{ResourceLimits: limits.Map{what: 1}}, now)
		state.Step(SampledUsage{0, most, []job.RankUsageSample{{Rank: 0, UsageSample: most}}}, now)
		if state.Cause == nil || state.Cause.Kind != OverLimit {
			t.Errorf("%s is exceeded, and the job goes on", what)
		}
	}
}

// If a node's own limit is exceeded, the report names its origin.
func TestLimitsOfTheNodeAreTold(t *testing.T) {
	for want, e := range map[string]LimitExceeded{
		"mem: 101 bytes used on host b, 100 bytes allowed by limits.toml of b":                          {Node: 1, Rank: -1, Resource: limits.HostMem, Used: 101, Allowed: 100},
		"pmem: 101 bytes used by rank 3 on host b, 100 bytes allowed by limits.toml of b":               {Node: 1, Rank: 3, Resource: limits.RankMem, Used: 101, Allowed: 100},
		"pmem: 101 bytes used by processes of no rank on host b, 100 bytes allowed by limits.toml of b": {Node: 1, Rank: -1, Resource: limits.RankMem, Used: 101, Allowed: 100},
	} {
		now := time.Unix(1_000_000, 0)
		state := NewState(twoNodes, Policy{}, now)
		if state.Step(e, now); state.Cause == nil || state.Cause.Text != want {
			t.Errorf("%+v, want %s", state.Cause, want)
		}
	}
}
