package reserve

import (
	"errors"
	"strings"
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

// Who has taken what was given up is told as far as nodes tell of claims: one that was seen in any way counts, and of what cannot be read
// the user hears. If no node is left, nobody is held to have claimed nothing.
func TestWhatIsReadOfWhatWasGivenUp(t *testing.T) {
	held := map[string]map[int]bool{"a": {1: true}, "b": {1: true}}
	other := []job.Claim{{Job: "his", Ranks: []job.ClaimedRank{{CPUs: []int{1}}}}}
	gone := errors.New("gone")
	for _, test := range []struct {
		name    string
		a, b    job.Page
		had     bool
		lost    []error
		claimed bool
		unread  string
	}{
		{"nobody has", job.Page{}, job.Page{}, false, []error{nil, nil}, false, ""},
		{"one has", job.Page{}, job.Page{Claims: other}, false, []error{nil, nil}, true, ""},
		{"one had", job.Page{}, job.Page{}, true, []error{nil, nil}, true, ""},
		{"a ledger cannot be read", job.Page{}, job.Page{Err: "broken"}, false, []error{nil, nil}, false, "b: broken"},
		{"what is read of it counts", job.Page{}, job.Page{Err: "too much", Claims: other}, false, []error{nil, nil}, true, ""},
		{"a node is lost", job.Page{Err: "gone"}, job.Page{}, false, []error{gone, nil}, false, "a: gone"},
		{"all are lost", job.Page{Err: "gone"}, job.Page{Err: "gone"}, false, []error{gone, gone}, true, "a: gone; b: gone"},
	} {
		test.a.Node, test.b.Node = "a", "b"
		r := &reservation{crew: newCrew()}
		r.hosts = []*host{{lost: test.lost[0]}, {lost: test.lost[1], had: test.had}}
		claimed, unread := r.claimedOf([]job.Page{test.a, test.b}, "mine", held)
		if got := strings.Join(unread, "; "); claimed != test.claimed || got != test.unread {
			t.Errorf("%s: %v, %q", test.name, claimed, got)
		}
	}
}
