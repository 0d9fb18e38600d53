package reserve

import (
	"testing"

	"remshell/job"
)

// That somebody has claimed what a job gave up is seen of its own CPUs alone, and not of its own claims (survive.md SV-33).
func TestWhoHasWhatWasGivenUp(t *testing.T) {
	held := heldBy(job.Plan{Nodes: []job.NodePlan{{Name: "a", Ranks: []job.RankPlan{{Portion: &job.Portion{Held: []int{1}}}, {Portion: &job.Portion{Held: []int{3}}}}}}})
	claim := func(id job.ID, cpus ...int) job.Claim {
		return job.Claim{Job: id, Ranks: []job.ClaimedRank{{CPUs: cpus}}}
	}
	for _, test := range []struct {
		node   string
		claims []job.Claim
		want   bool
	}{
		{"a", []job.Claim{claim("bob's", 2, 3)}, true},
		{"a", []job.Claim{claim("bob's", 0, 2)}, false},
		{"a", []job.Claim{claim("mine", 1, 3), claim("bob's")}, false},
		{"b", []job.Claim{claim("bob's", 1, 3)}, false},
		{"a", nil, false},
	} {
		if got := othersHave(job.Page{Node: test.node, Claims: test.claims}, "mine", held[test.node]); got != test.want {
			t.Errorf("%s, %+v: %v", test.node, test.claims, got)
		}
	}
}
