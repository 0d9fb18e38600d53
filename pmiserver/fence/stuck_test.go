package fence

import "testing"

// Ranks of a spawned group are named with their group; otherwise two ranks could have the same name.
func TestStuckErrorText(t *testing.T) {
	of := func(group string, numbers ...int) (ranks []Rank) {
		for _, n := range numbers {
			ranks = append(ranks, Rank{group, n})
		}
		return ranks
	}
	for want, err := range map[string]*StuckError{
		"rank 0 waits in a barrier that rank 1 has left for good":                          {Waiting: of("", 0), Gone: of("", 1)},
		"rank 0 waits in a barrier that rank 1:0 has left for good":                        {Waiting: of("65-1-a", 0), Gone: of("65-1-a_1", 0)},
		"ranks 0 and 1 wait in a barrier that ranks 2, 3 and 4 have left for good":         {Waiting: of("", 0, 1), Gone: of("", 2, 3, 4)},
		"rank 0 waits in a barrier that ranks 1, 2, 3 and 3 more have left for good":       {Waiting: of("", 0), Gone: of("", 1, 2, 3, 4, 5, 6)},
		"ranks 0 and 2 are let out of a fence, with an error: rank 1 has left it for good": {Waiting: of("", 0, 2), Gone: of("", 1), Released: true},
	} {
		if got := err.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}
