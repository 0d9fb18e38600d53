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
		"rank 0 waits in a barrier, but rank 1 has ended without entering it":                           {Waiting: of("", 0), Gone: of("", 1)},
		"rank 0 waits in a barrier, but rank 1:0 has ended without entering it":                         {Waiting: of("65-1-a", 0), Gone: of("65-1-a_1", 0)},
		"ranks 0 and 1 wait in a barrier, but ranks 2, 3 and 4 have ended without entering it":          {Waiting: of("", 0, 1), Gone: of("", 2, 3, 4)},
		"rank 0 waits in a barrier, but ranks 1, 2, 3 and 3 more have ended without entering it":        {Waiting: of("", 0), Gone: of("", 1, 2, 3, 4, 5, 6)},
		"a PMIx fence returned an error to ranks 0 and 2, because rank 1 has ended without entering it": {Waiting: of("", 0, 2), Gone: of("", 1), Released: true},
	} {
		if got := err.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}
