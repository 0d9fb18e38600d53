package reserve

import (
	"slices"
	"testing"

	"remshell/job"
)

// What an entry of a host file gives its ranks stands, also against what we tell ranks of
// ourselves; -env stands against both.
func TestWordsOfAHostStandAgainstOurs(t *testing.T) {
	apps := []job.App{{Env: job.Env{Set: []string{"A=-env"}}, Told: []string{"OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}}, {}}
	for _, test := range []struct {
		entry, want []string
	}{
		{nil, []string{"A=-env", "OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}},
		{[]string{"OMP_NUM_THREADS=7", "A=host"}, []string{"A=-env", "PSP_SCHED_YIELD=1"}},
		{[]string{"OMP_NUM=7"}, []string{"A=-env", "OMP_NUM_THREADS=2", "PSP_SCHED_YIELD=1"}},
	} {
		got := programs(apps, make([]int, len(apps)), job.NodeDef{Env: test.entry})
		if !slices.Equal(got[0].Env.Set, test.want) || len(got[1].Env.Set) > 0 {
			t.Errorf("%v: %v, want %v", test.entry, got, test.want)
		}
	}
	if !slices.Equal(apps[0].Env.Set, []string{"A=-env"}) || len(apps[0].Told) != 2 {
		t.Errorf("the request has changed: %v", apps)
	}
}

// Ranks of a node have their folder of the job there, in all that they get, and the request stays as it is.
func TestRanksGetTheFolderOfTheirNode(t *testing.T) {
	def := job.NodeDef{Folder: job.Folder{Here: "/x/dir_9", There: "/x/dir_4"}}
	req := job.Request{
		Base: job.Env{Dirs: []string{"TMPDIR=/x/dir_9"}, Set: []string{"A=1", "_CONDOR_SCRATCH_DIR=/x/dir_9"}},
		Apps: []job.App{{Argv: []string{"/x/dir_9/prog", "-in", "/x/dir_9/in"}, Dir: "/x/dir_9/work", Path: []string{"/x/dir_9"}, Behind: []string{"/x/dir_9/b"}, Env: job.Env{Set: []string{"B=/x/dir_9"}}}},
	}
	app := programs(req.Apps, []int{1}, def)[0]
	env := base(req, def, nil)
	got := slices.Concat(app.Argv, []string{app.Dir}, app.Path, app.Behind, app.Env.Set, env.Dirs, env.Set)
	want := []string{"/x/dir_4/prog", "-in", "/x/dir_4/in", "/x/dir_4/work", "/x/dir_4", "/x/dir_4/b", "B=/x/dir_4", "TMPDIR=/x/dir_4", "A=1", "_CONDOR_SCRATCH_DIR=/x/dir_4"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if !slices.Equal(req.Apps[0].Argv, []string{"/x/dir_9/prog", "-in", "/x/dir_9/in"}) || req.Base.Set[1] != "_CONDOR_SCRATCH_DIR=/x/dir_9" {
		t.Errorf("the request has changed: %v", req)
	}
}
