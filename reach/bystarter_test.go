package reach

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/reach/starter"
	"remshell/sshx"
)

// testStarter is a way by a program of ours in the place of srun.
func testStarter(t *testing.T, text string) *ByStarter {
	t.Helper()
	return &ByStarter{Self: self(t), Starter: starter.Of("slurm"), Program: program(t, text), Env: os.Environ(), Pacer: new(sshx.Pacer),
		Help: func() string { return "  --overlap  Allow other steps to overlap this step" },
		Find: func(h Host) (starter.Call, error) { return starter.Call{Host: h.Name, Part: -1}, nil }}
}

// afterOptions lets a program in the place of srun do what srun does: run its last word.
const afterOptions = `while [ $# -gt 1 ]; do shift; done; exec "$@"` + "\n"

// srun is called with what RM-30 and RM-32 say, has nothing of the step around us, and whatever it
// prints before the helper speaks does no harm.
func TestByStarterCallsIt(t *testing.T) {
	dir := t.TempDir()
	s := testStarter(t, "echo srun: warning: something >&2; echo hello; echo \"$@\" >"+dir+"/args; env >"+dir+"/env; HOME="+t.TempDir()+"\n"+afterOptions)
	s.Args = []string{"--qos=high"}
	s.Env = append(s.Env, "SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=n1", "SLURM_CPU_BIND_TYPE=mask", "SLURM_NTASKS=4", "SLURM_EXPORT_ENV=NONE")
	rw, err := dial(t, s, "n1")
	check(t, err)
	conn := guarded(t, rw)
	hello(t, conn, s.Self.Build)
	echoes(t, conn)
	want := "-N1 -n1 -w n1 --overlap --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 -u -J mpiexec --qos=high /bin/sh\n"
	if got := string(must(os.ReadFile(filepath.Join(dir, "args")))); got != want {
		t.Errorf("called with %q\nwant %q", got, want)
	}
	env := strings.Split(string(must(os.ReadFile(filepath.Join(dir, "env")))), "\n")
	if !slices.Contains(env, "SLURM_JOB_ID=7") {
		t.Error("srun does not know its job")
	}
	for _, name := range []string{"SLURM_STEP_", "SLURM_CPU_BIND", "SLURM_NTASKS", "SLURM_EXPORT_ENV"} {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
			t.Errorf("srun has %s", name)
		}
	}
}

// What srun says when it cannot is the error of its host; when Slurm is busy it is tried again.
func TestByStarterRefused(t *testing.T) {
	for said, want := range map[string]string{
		"srun: error: Unable to create step for job 1: Requested node configuration is not available": "srun: Unable to create step for job 1: Requested node configuration is not available",
		"srun: error: n2: task 0: Killed\nsrun: Force Terminated StepId=1.6":                          "srun: n2: task 0: Killed",
		"srun: cluster configuration lacks support for cpu binding":                                   "srun: it ended with exit code 1 and without a word",
	} {
		s := testStarter(t, "echo '"+said+"' >&2; exit 1\n")
		_, err := dial(t, s, "n1")
		var e *Error
		if !errors.As(err, &e) || e.Reason() != want || e.Remedy == "" {
			t.Errorf("%q: %v, want %s and what to do", said, err, want)
		}
	}
	tried := filepath.Join(t.TempDir(), "tried")
	s := testStarter(t, "HOME="+t.TempDir()+"\nif [ ! -e "+tried+" ]; then touch "+tried+"; echo 'srun: error: Unable to confirm allocation for job 1: Socket timed out on send/recv operation' >&2; exit 1; fi\n"+afterOptions)
	rw, err := dial(t, s, "n1")
	check(t, err)
	rw.Close()
	s = testStarter(t, "exit 1\n")
	s.Find = func(h Host) (starter.Call, error) { return starter.Call{}, NotInJob(h.Name, "slurm", "12") }
	if _, err := dial(t, s, "n9"); err == nil || err.Error() != "n9: config: not part of slurm job 12" {
		t.Errorf("a host of somebody else: %v", err)
	}
}

// What nothing was heard of in time has a reason that the starter may know: an srun that is older
// than --overlap may have to wait for CPUs.
func TestByStarterSilent(t *testing.T) {
	s := testStarter(t, "echo 'srun: Job 1 step creation temporarily disabled, retrying' >&2; exec sleep 1000\n")
	s.Help, s.Timeout = func() string { return "" }, 100*time.Millisecond
	_, err := dial(t, s, "n1")
	var e *Error
	if !errors.As(err, &e) || e.Why != "srun waits for resources: this srun has no --overlap" {
		t.Error(err)
	}
}
