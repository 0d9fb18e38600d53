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
