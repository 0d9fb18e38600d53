package launch

import (
	"time"

	"remshell/job"
	"remshell/launch/supervise"
)

// A survey of the ranks is under way: what each is doing (DIAG-12).
type statesQuery struct {
	waiting    map[int]bool // nodes of the plan that have not answered
	ranks      []job.RankState
	forUser    bool                  // our user is to be told
	requesters []supervise.Requester // and these
}

// statesTimeout is how long a node may take to tell of its ranks.
const statesTimeout = 2 * time.Second

// statesTimedOut says that nobody waits for the rest of a survey any more.
type statesTimedOut struct{ query *statesQuery }
