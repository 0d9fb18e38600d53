package launch

import (
	"time"

	"remshell/job"
	"remshell/launch/supervise"
)

// A survey of the ranks is under way: what each is doing (DIAG-12).
type states struct {
	waiting map[int]bool // nodes of the plan that have not answered
	ranks   []job.RankState
	told    bool              // our user is to be told
	askers  []supervise.Asker // and these
}

// statesPatience is how long a node may take to tell of its ranks.
const statesPatience = 2 * time.Second

// statesLate says that nobody waits for the rest of a survey any more.
type statesLate struct{ of *states }
