package reserve

import (
	"slices"
	"testing"

	"remshell/job"
)

// A variable in the entry of a host file overrides the default environment; -env overrides both.
func TestEnvironmentOfAHostEntry(t *testing.T) {
	apps := []job.App{{Env: job.Env{Set: []string{"A=-env"}}, DefaultEnv: []string{"OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}}, {}}
	for _, test := range []struct {
		entry, want []string
	}{
		{nil, []string{"A=-env", "OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}},
		{[]string{"OMP_NUM_THREADS=7", "A=host"}, []string{"A=-env", "PSP_SCHED_YIELD=1"}},
		{[]string{"OMP_NUM=7"}, []string{"A=-env", "OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}},
	} {
		got := appsOnNode(apps, make([]int, len(apps)), job.NodeDef{Env: test.entry})
		if !slices.Equal(got[0].Env.Set, test.want) || len(got[1].Env.Set) > 0 {
			t.Errorf("%v: %v, want %v", test.entry, got, test.want)
		}
	}
	if !slices.Equal(apps[0].Env.Set, []string{"A=-env"}) || len(apps[0].DefaultEnv) != 2 {
		t.Errorf("the request has changed: %v", apps)
	}
}

// On a node, all paths of ranks in the batch job's directory are translated to the node's directory. The
// request itself does not change.
func TestRanksGetTheBatchDirOfTheirNode(t *testing.T) {
	def := job.NodeDef{BatchDir: job.BatchDir{LocalPath: "/x/dir_9", NodePath: "/x/dir_4"}}
	req := job.Request{
		BaseEnv: job.Env{DirVars: []string{"TMPDIR=/x/dir_9"}, Set: []string{"A=1", "_CONDOR_SCRATCH_DIR=/x/dir_9"}},
		Apps:    []job.App{{Argv: []string{"/x/dir_9/prog", "-in", "/x/dir_9/in"}, Dir: "/x/dir_9/work", SearchBefore: []string{"/x/dir_9"}, SearchAfter: []string{"/x/dir_9/b"}, Env: job.Env{Set: []string{"B=/x/dir_9"}}}},
	}
	app := appsOnNode(req.Apps, []int{1}, def)[0]
	env := baseEnv(req, def, nil)
	got := slices.Concat(app.Argv, []string{app.Dir}, app.SearchBefore, app.SearchAfter, app.Env.Set, env.DirVars, env.Set)
	want := []string{"/x/dir_4/prog", "-in", "/x/dir_4/in", "/x/dir_4/work", "/x/dir_4", "/x/dir_4/b", "B=/x/dir_4", "TMPDIR=/x/dir_4", "A=1", "_CONDOR_SCRATCH_DIR=/x/dir_4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if !slices.Equal(req.Apps[0].Argv, []string{"/x/dir_9/prog", "-in", "/x/dir_9/in"}) || req.BaseEnv.Set[1] != "_CONDOR_SCRATCH_DIR=/x/dir_9" {
		t.Errorf("the request has changed: %v", req)
	}
}
