package fence

import "testing"

func TestStuckErrorText(t *testing.T) {
	for want, err := range map[string]*StuckError{
		"rank 0 waits in a barrier that rank 1 has left for good":                          {Waiting: []int{0}, Gone: []int{1}},
		"ranks 0 and 1 wait in a barrier that ranks 2, 3 and 4 have left for good":         {Waiting: []int{0, 1}, Gone: []int{2, 3, 4}},
		"another node waits in a barrier that rank 4 has left for good":                    {Nodes: 1, Gone: []int{4}},
		"3 other nodes wait in a barrier that ranks 1, 2, 3 and 3 more have left for good": {Nodes: 3, Gone: []int{1, 2, 3, 4, 5, 6}},
	} {
		if got := err.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}
