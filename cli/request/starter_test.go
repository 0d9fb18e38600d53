package request

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/cli/option"
	"remshell/job"
)

// The grace of ranks is limited to what the batch system allows. The limit is the user's, Slurm's answer (it is asked
// only for long times), or another batch system's documented default (RM-62).
func TestLimitGrace(t *testing.T) {
	for _, test := range []struct {
		name, system string
		grace, delay time.Duration // in seconds, as all here
		answer       string
		most, want   time.Duration
		asked        bool
	}{
		{"no batch system", "", 60, 0, "", 0, 60, false},
		{"slurm, a usual time", "slurm", 25, 0, "KillWait = 20 sec", 0, 25, false},
		{"slurm, a long time", "slurm", 60, 0, "KillWait                = 30 sec", 27, 27, true},
		{"slurm, without an answer", "slurm", 60, 0, "", 0, 60, true},
		{"slurm, with a delay", "slurm", 60, 50, "KillWait = 30 sec", 47, 47, false},
		{"pbs", "pbs", 10, 0, "", 7, 7, false},
		{"lsf, less is wanted", "lsf", 2, 0, "", 7, 2, false},
		{"flux", "flux", 10, 0, "", 2, 2, false},
		{"flux, with a delay", "flux", 10, 60, "", 57, 10, false},
		{"sge, which warns of nothing", "sge", 60, 0, "", 0, 60, false},
		{"hardly any time", "pbs", 10, 2, "", 1, 1, false},
	} {
		req := job.Request{TimeLimits: job.TimeLimits{Grace: test.grace * time.Second}}
		if test.system != "" {
			req.RM = &job.RM{Name: test.system, Job: "7"}
		}
		asked := false
		most, err := LimitGrace(&req, test.delay*time.Second, func(string, ...string) (string, error) { asked = true; return test.answer, nil })
		if err != nil || most != test.most*time.Second || req.TimeLimits.Grace != test.want*time.Second || asked != test.asked {
			t.Errorf("%s: %v at most, %v between, asked %v, %v", test.name, most, req.TimeLimits.Grace, asked, err)
		}
	}
	if _, err := LimitGrace(new(job.Request), time.Second, nil); err == nil {
		t.Error("there is no batch system whose time could be known")
	}
}

// PBS's starter is chosen by itself in a job that has a cookie, since helpers prove by it that they belong to the job. Its
// other program is used only on request.
func TestPBSStarter(t *testing.T) {
	job := []string{"PBS_JOBID=12.n0", "PBS_NODEFILE=/nodes"}
	withCookie := append(slices.Clone(job), "PBS_JOBCOOKIE=6B8B4567")
	for _, test := range []struct {
		name    string
		environ []string
		word    string
		want    string // the system and whether it attaches; empty: ssh
		fails   bool
	}{
		{"by itself", withCookie, "", "pbs false", false},
		{"auto", withCookie, "auto", "pbs false", false},
		{"by name", withCookie, "pbs_tmrsh", "pbs false", false},
		{"ssh", withCookie, "ssh", "", false},
		{"without a cookie", job, "", "", false},
		{"an empty cookie", append(slices.Clone(job), "PBS_JOBCOOKIE="), "auto", "", false},
		{"by name, without a cookie", job, "pbs", "", true},
		{"pbs_attach", job, "pbs_attach", "pbs true", false},
		{"in no job", nil, "pbs", "", true},
		{"in a rank", append(slices.Clone(withCookie), "MPIEXEC_JOBID=1"), "auto", "", false},
	} {
		w := Inputs{Environ: test.environ, OpenFile: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("n1\nn2\n")), nil }}
		s, err := w.FindStarter(option.JobOptions{Launcher: test.word})
		got := ""
		if s.System != nil {
			got = fmt.Sprint(s.System.Name, " ", s.Attach)
		}
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}
