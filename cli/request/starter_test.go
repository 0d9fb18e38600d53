package request

import (
	"testing"
	"time"

	"remshell/job"
)

// Ranks are not given longer to end than their batch system leaves them: as the user says, as Slurm answers, which is
// asked only for long times, or by the manual of another (RM-62).
func TestHasten(t *testing.T) {
	for _, test := range []struct {
		name, system string
		grace, told  time.Duration // in seconds, as all here
		answer       string
		most, want   time.Duration
		asked        bool
	}{
		{"no batch system", "", 60, 0, "", 0, 60, false},
		{"slurm, a usual time", "slurm", 25, 0, "KillWait = 20 sec", 0, 25, false},
		{"slurm, a long time", "slurm", 60, 0, "KillWait                = 30 sec", 27, 27, true},
		{"slurm, without an answer", "slurm", 60, 0, "", 0, 60, true},
		{"slurm, told", "slurm", 60, 50, "KillWait = 30 sec", 47, 47, false},
		{"pbs", "pbs", 10, 0, "", 7, 7, false},
		{"lsf, less is wanted", "lsf", 2, 0, "", 7, 2, false},
		{"flux", "flux", 10, 0, "", 2, 2, false},
		{"flux, told", "flux", 10, 60, "", 57, 10, false},
		{"sge, which warns of nothing", "sge", 60, 0, "", 0, 60, false},
		{"hardly any time", "pbs", 10, 2, "", 1, 1, false},
	} {
		req := job.Request{TimeLimits: job.TimeLimits{Grace: test.grace * time.Second}}
		if test.system != "" {
			req.RM = &job.RM{Name: test.system, Job: "7"}
		}
		asked := false
		most, err := LimitGrace(&req, test.told*time.Second, func(string, ...string) (string, error) { asked = true; return test.answer, nil })
		if err != nil || most != test.most*time.Second || req.TimeLimits.Grace != test.want*time.Second || asked != test.asked {
			t.Errorf("%s: %v at most, %v between, asked %v, %v", test.name, most, req.TimeLimits.Grace, asked, err)
		}
	}
	if _, err := LimitGrace(new(job.Request), time.Second, nil); err == nil {
		t.Error("there is no batch system whose time could be told")
	}
}
