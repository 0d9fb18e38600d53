package control

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/text"
)

// RateLimits limits how often each remote node may forward requests, because a faulty node could invent requests.
// Each value is the time at which the full number of requests (burst) may again arrive at once. All attempts of a
// job share one RateLimits.
type RateLimits map[rateKey]time.Time

type rateKey struct {
	node       string
	statusOnly bool // requests for the status, which change nothing
}

// These constants limit the requests that a remote node may forward. It may forward a number of requests (burst)
// at once, and then one in each interval. For status requests the interval is statusInterval.
const (
	burst          = 8
	interval       = 10 * time.Second
	statusInterval = time.Second
)

// TooSoon counts a request that a remote node has forwarded. It returns the reason for refusing the request,
// or "". Requests to end the job are never refused.
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
		return fmt.Sprintf("the job received too many requests through %s; try again in %s", r.SayingNode, text.FormatDuration((wait + time.Second - 1).Truncate(time.Second)))
	}
	l[key] = fullAgain
	return ""
}
