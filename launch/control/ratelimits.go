package control

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// RateLimits limits how often each remote node forwards requests, since a node could invent requesters.
// The value is the time at which burst requests may arrive at once again. All attempts of a job share it.
type RateLimits map[rateKey]time.Time

type rateKey struct {
	node       string
	statusOnly bool // requests for the status, which change nothing
}

// A remote node may forward burst requests at once. After that it may forward one in each interval. For
// status requests the interval is statusInterval.
const (
	burst          = 8
	interval       = 10 * time.Second
	statusInterval = time.Second
)

// TooSoon counts a request forwarded by a remote node. It returns why the request is refused, or
// "". A request to end the job is never refused.
func (l RateLimits) TooSoon(r Request, now time.Time) string {
	if r.SayingNode == "" || r.Verb == job.VerbEnd {
		return ""
	}
	key, pause := rateKey{r.SayingNode, r.Verb == job.VerbStatus}, interval
	if key.statusOnly {
		pause = statusInterval
	}
	fullAgain := l[key]
	if fullAgain.Before(now) {
		fullAgain = now
	}
	fullAgain = fullAgain.Add(pause)
	if wait := fullAgain.Sub(now) - burst*pause; wait > 0 {
		return fmt.Sprintf("the job received too many requests through %s; ask again in %s", r.SayingNode, text.FormatDuration((wait + time.Second - 1).Truncate(time.Second)))
	}
	l[key] = fullAgain
	return ""
}
