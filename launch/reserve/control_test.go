package reserve

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A job is found by its ID, or by ID and user. Claims of other users under its ID do not belong to it. If it is
// ambiguous whose job is meant, none is.
func TestWhichJobIsMeant(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	pages := []job.LedgerListing{
		{Node: "n1", ReaderUID: 5, Claims: []job.Claim{{Job: "old", UID: 5, User: "me", Since: at(1)}, {Job: "his", UID: 7, User: "ben", Since: at(9)},
			{Job: "new", UID: 8, User: "evil", Since: at(99)}, {Job: "two", UID: 7, User: "ben", Since: at(1)}, {Job: "two", UID: 8, User: "evil", Since: at(1)}}},
		{Node: "n2", ReaderUID: 6, Claims: []job.Claim{{Job: "old", UID: 6, User: "me2", Since: at(1)}, {Job: "new", UID: 6, User: "me2", Since: at(2)},
			{Job: "far", UID: 9, Since: at(1)}}},
		{Node: "n3", ReaderUID: 5, Claims: []job.Claim{{Job: "his", UID: 7, User: "ben", Since: at(9)}, {Job: "far", UID: 8, User: "evil", Since: at(1)}},
			Tickets: []job.Ticket{{Job: "his", UID: 8, User: "evil"}, {Job: "waits", UID: 7, User: "ben"}}},
	}
	for _, test := range []struct {
		ref     string
		tickets bool
		id      job.ID
		uids    []int
		err     string
	}{
		{"last", false, "new", []int{-1, 6, -1}, ""},
		{"last@evil", false, "new", []int{8, -1, -1}, ""},
		{"last@nobody", false, "", []int{-1, -1, -1}, ""},
		{"old", false, "old", []int{5, 6, -1}, ""},
		{"new", true, "new", []int{-1, 6, -1}, ""},
		{"new@8", false, "new", []int{8, -1, -1}, ""},
		{"his", false, "his", []int{7, -1, 7}, ""},
		{"his", true, "", nil, "2 users have a job with the ID his: ben on n1,n3; evil on n3; add the user to the ID: his@ben or his@evil"},
		{"his@ben", true, "his", []int{7, -1, 7}, ""},
		{"two", false, "", nil, "2 users have a job with the ID two: ben on n1; evil on n1; add the user to the ID: two@ben or two@evil"},
		{"two@ben", false, "two", []int{7, -1, -1}, ""},
		{"two@8", false, "two", []int{8, -1, -1}, ""},
		{"two@me", false, "two", []int{-1, -1, -1}, ""},
		{"far", false, "", nil, "2 users have a job with the ID far: 9 on n2; evil on n3; add the user to the ID: far@9 or far@evil"},
		{"waits", true, "waits", []int{-1, -1, 7}, ""},
		{"waits", false, "waits", []int{-1, -1, -1}, ""},
		{"none", true, "none", []int{-1, -1, -1}, ""},
	} {
		ref, err := job.ParseRef(test.ref)
		if err != nil {
			t.Fatal(err)
		}
		if ref, err = resolveName(pages, ref); err != nil {
			t.Fatal(err)
		}
		got, several := findJob(pages, ref, test.tickets)
		switch {
		case several != nil:
			if text := several.Text + "; " + several.Remedy; text != test.err {
				t.Errorf("%s: %s, want %s", test.ref, text, test.err)
			}
		case test.err != "" || got.Job != test.id || !slices.Equal(got.uids, test.uids):
			t.Errorf("%s is %+v, want %+v", test.ref, got, test)
		}
	}
	for _, text := range []string{"", "@ann", "j@"} {
		if ref, err := job.ParseRef(text); err == nil {
			t.Errorf("%q is %v", text, ref)
		}
	}
}

// Only a job in a queue counts as queued. The newest job of a user without jobs is not queued, even if
// another user's job runs.
func TestWhichJobWaits(t *testing.T) {
	pages := []job.LedgerListing{{Node: "n1", ReaderUID: 5, Claims: []job.Claim{{Job: "runs-1", UID: 7, User: "ben"}},
		Tickets: []job.Ticket{{Job: "waits-1", UID: 7, User: "ben"}, {Job: "mine-1", UID: 5, User: "me"}}}}
	for name, want := range map[string]bool{"last": true, "mine-1": true, "waits-1": true, "waits-1@ben": true, "wai": true, "waits-1@me": false,
		"last@eve": false, "runs-1": false, "none": false} {
		ref, err := job.ParseRef(name)
		of, err2 := resolveJob(pages, ref, false)
		if got := isQueued(pages, of); err != nil || err2 != nil || got != want {
			t.Errorf("%s waits: %v, want %v; %v", name, got, want, err)
		}
	}
	pages[0].Tickets = nil
	if of, err := resolveJob(pages, job.JobRef{Job: job.NewestJob}, false); err != nil || isQueued(pages, of) {
		t.Error("the last job of a user who has none waits")
	}
}

// If many users claim one ID, the error names only a few.
func TestManyUsersClaimOneJob(t *testing.T) {
	page := job.LedgerListing{Node: "n1", ReaderUID: 0}
	for uid := range 300 {
		page.Claims = append(page.Claims, job.Claim{Job: "j", UID: 1000 + uid}, job.Claim{Job: "j", UID: 1000 + uid})
	}
	_, several := findJob([]job.LedgerListing{page}, job.JobRef{Job: "j"}, false)
	if want := "300 users have a job with the ID j: 1000 on n1; 1001 on n1; 1002 on n1; 1003 on n1; 296 more"; several == nil || !strings.HasPrefix(several.Text, want) {
		t.Errorf("%v, want %s", several, want)
	}
}

// A request to a job goes to a node on which it has ranks: a standby node does not pass it on.
func TestPageToAsk(t *testing.T) {
	claim := func(uid int, why job.IdleReason) job.Claim { return job.Claim{Job: "j", UID: uid, IdleReason: why} }
	page := func(claims ...job.Claim) job.LedgerListing { return job.LedgerListing{ReaderUID: 1, Claims: claims} }
	for _, test := range []struct {
		name     string
		pages    []job.LedgerListing
		at       int
		hasRanks bool
	}{
		{"nowhere", []job.LedgerListing{page(job.Claim{Job: "other", UID: 1})}, -1, false},
		{"the first", []job.LedgerListing{page(), page(claim(1, "")), page(claim(1, ""))}, 1, true},
		{"ours", []job.LedgerListing{page(claim(2, "")), page(claim(1, ""))}, 1, true},
		{"another user's", []job.LedgerListing{page(claim(2, job.IdleStandby)), page(claim(2, ""))}, 1, true},
		{"a standby node is the first", []job.LedgerListing{page(claim(1, job.IdleStandby)), page(claim(1, ""))}, 1, true},
		{"between two attempts", []job.LedgerListing{page(claim(1, job.IdleStandby)), page(claim(1, job.IdleRestarting))}, 1, true},
		{"being moved", []job.LedgerListing{page(claim(1, job.IdleStandby), claim(1, ""))}, 0, true},
		{"standby nodes alone", []job.LedgerListing{page(), page(claim(1, job.IdleStandby))}, 1, false},
	} {
		of, several := findJob(test.pages, job.JobRef{Job: "j"}, false)
		if at, hasRanks := pageToAsk(test.pages, of); several != nil || at != test.at || hasRanks != test.hasRanks {
			t.Errorf("%s: %d, %v, want %d, %v; %v", test.name, at, hasRanks, test.at, test.hasRanks, several)
		}
	}
}

// A job has ended when none of its claims is left. Other users' claims under its ID do not count.
func TestRemainingClaim(t *testing.T) {
	mine, other := job.Claim{Job: "j", UID: 7}, job.Claim{Job: "j", UID: 8}
	of := jobTarget{job.JobRef{Job: "j"}, []int{7, -1, 7}}
	for _, test := range []struct {
		name  string
		pages []job.LedgerListing
		node  string
		why   string
	}{
		{"nothing", []job.LedgerListing{{Node: "a", Claims: []job.Claim{other}}, {Node: "b", Claims: []job.Claim{mine}}, {Node: "c"}}, "", ""},
		{"a claim", []job.LedgerListing{{Node: "a"}, {Node: "b"}, {Node: "c", Claims: []job.Claim{other, mine}}}, "c", "the job still uses CPUs on this host"},
		{"a ledger of the job's that cannot be read", []job.LedgerListing{{Node: "a", Err: "broken"}, {Node: "b"}, {Node: "c"}}, "a", "the claims on this host cannot be read: broken"},
		{"a host that came later", []job.LedgerListing{{Node: "a"}, {Node: "b"}, {Node: "c"}, {Node: "d", Claims: []job.Claim{mine}}}, "", ""},
		{"another ledger that cannot be read", []job.LedgerListing{{Node: "a"}, {Node: "b", Err: "broken"}, {Node: "c"}}, "", ""},
	} {
		if node, why := remainingClaim(test.pages, of); node != test.node || why != test.why {
			t.Errorf("%s: %q, %q; want %q, %q", test.name, node, why, test.node, test.why)
		}
	}
}

// A request that takes the job's own time has no time limit: a checkpoint may take more than ten minutes. A
// status request has a limit.
func TestARequestWaitsAsLongAsTheJobTakes(t *testing.T) {
	for verb, waits := range map[job.Verb]bool{job.VerbCheckpoint: true, job.VerbMigrate: true, job.VerbEnd: true, job.VerbSuspend: true, job.VerbStatus: false} {
		synctest.Test(t, func(t *testing.T) {
			const late = 3 * time.Hour // --ckpt-grace 4h, say
			var over atomic.Bool
			s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.ListLedger:
					listed := &wire.LedgerListed{UID: 5}
					if !over.Load() {
						listed.Claims = []job.Claim{{Job: "j", UID: 5}}
					}
					c.Send(listed)
				case *wire.WatchClaims:
				case *wire.ControlRequest:
					time.AfterFunc(late, func() {
						over.Store(true)
						c.Send(&wire.ControlReply{ID: m.ID, State: job.ReplyDone, Text: "it is written"})
					})
				default:
					return false
				}
				return true
			})
			r := s.request(func(*job.Request) {}, "a")
			signals := make(chan os.Signal)
			defer close(signals)
			r.env.Signals = signals
			result, err := Control(t.Context(), r.req, r.env, job.JobRef{Job: "j"}, job.ControlRequest{Verb: verb})
			if done := result.Reply.State == job.ReplyDone; done != waits || err != nil && waits {
				t.Errorf("%s: %+v, %v", verb, result, err)
			}
			time.Sleep(late)
			synctest.Wait()
		})
	}
}

// A job that replies that it has ended, and keeps its claim, has not ended: the reply becomes "refused". Control
// waits for claims that are released a moment later.
func TestAJobThatKeepsItsClaimHasNotEnded(t *testing.T) {
	for keeps, want := range map[time.Duration]job.ReplyState{time.Hour: job.ReplyRefused, 20 * time.Second: job.ReplyDone} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.ListLedger:
					listed := &wire.LedgerListed{UID: 0, Claims: []job.Claim{{Job: "j", UID: 6}, {Job: "j", UID: 5, User: "ann"}}}
					if time.Since(began) > keeps {
						listed.Claims = listed.Claims[:1]
					}
					c.Send(listed)
				case *wire.WatchClaims:
				case *wire.ControlRequest:
					if m.Request.Owner != 5 {
						t.Errorf("the job of uid %d is asked", m.Request.Owner)
					}
					c.Send(&wire.ControlReply{ID: m.ID, State: job.ReplyDone})
				default:
					return false
				}
				return true
			})
			r := s.request(func(*job.Request) {}, "a")
			signals := make(chan os.Signal)
			defer close(signals)
			r.env.Signals = signals
			result, err := Control(t.Context(), r.req, r.env, job.JobRef{Job: "j", User: "ann"}, job.ControlRequest{Verb: job.VerbEnd})
			if err != nil || result.Reply.State != want || want == job.ReplyRefused && result.Reply.Text != "job j@ann reported that it has ended, but the job still uses CPUs on this host" {
				t.Errorf("%+v, %v; want %s", result, err, want)
			}
			synctest.Wait()
		})
	}
}

// The ledgers that all hosts together send are limited, however many hosts there are.
func TestMaxListing(t *testing.T) {
	for hosts, want := range map[int]int{0: 256 << 20, 1: 256 << 20, 64: 4 << 20, 1024: 256 << 10, 4096: 64 << 10, 100_000: 64 << 10} {
		if got := maxListing(hosts); got != want {
			t.Errorf("%d hosts: %d bytes each, want %d", hosts, got, want)
		}
	}
}

// A helper that does not reply to a status request does not keep the nodes' listings from being returned.
func TestStatusWithoutReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeCluster(func(c *wire.Conn, _ string, m wire.Message) bool {
			switch m.(type) {
			case *wire.ListLedger:
				c.Send(&wire.LedgerListed{UID: 5, Claims: []job.Claim{{Job: "j", UID: 5, Size: 2}}})
			case *wire.ControlRequest:
				go func() {
					for c.Send(&wire.Ping{}) == nil {
						<-time.After(time.Second)
					}
				}()
			default:
				return false
			}
			return true
		})
		r := s.request(func(*job.Request) {}, "a")
		signals := make(chan os.Signal)
		defer close(signals)
		r.env.Signals = signals
		began := time.Now()
		pages, result, err := Status(t.Context(), r.req, r.env, job.JobRef{Job: "j"})
		if took := time.Since(began); err != nil || took > time.Minute || len(pages) != 1 || len(pages[0].Claims) != 1 || result.Reply.Text != "mpiexec on the host was started, but did not answer within 30 s" {
			t.Errorf("after %v: %v, pages %+v, reply %+v", took, err, pages, result.Reply)
		}
		<-time.After(2 * time.Second) // the last Ping
	})
}

// A prefix of a job's ID names the job.
func TestPrefixOfAnID(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	pages := []job.LedgerListing{
		{Node: "n1", ReaderUID: 5, Claims: []job.Claim{
			{Job: "65a-1-aa", UID: 5, User: "me", Since: at(1), Command: "./solver"}, {Job: "65a-1-aa", UID: 5, User: "me", Since: at(50)},
			{Job: "65a-2-bb", UID: 5, User: "me", Since: at(2), Command: "./other"}, {Job: "65b-1-cc", UID: 7, User: "ben", Since: at(3)},
			{Job: "65a-1-a", UID: 7, User: "ben", Since: at(4)}, {Job: "65a-2", UID: 8, User: "evil", Since: at(5)}, {Job: "last", UID: 8, User: "evil", Since: at(6)}}},
		{Node: "n2", ReaderUID: 5, Claims: []job.Claim{{Job: "65a-2-bb", UID: 5, User: "me", Since: at(2)}, {Job: "65b-9", UID: 8, User: "evil", Since: at(7)}},
			Tickets: []job.Ticket{{Job: "65c-1-dd", UID: 5, User: "me", Since: at(9), Summary: "4 ranks"}}},
	}
	for _, test := range []struct {
		name string
		want job.ID
		err  string
	}{
		{"65a-1-aa", "65a-1-aa", ""},
		{"65a-1", "65a-1-aa", ""},
		{"65a-1-a", "65a-1-aa", ""}, // the user's own job comes before another user's whole ID
		{"65a-2", "65a-2-bb", ""},
		{"65a-2@evil", "65a-2", ""},
		{"65a-1@ben", "65a-1-a", ""},
		{"65b-1", "65b-1-cc", ""},
		{"65c", "65c-1-dd", ""},
		{"last", "65c-1-dd", ""}, // a later spawn of an older job does not count
		{"last@ben", "65a-1-a", ""},
		{"las", "last", ""}, // another user's job that is called "last"
		{"none", "none", ""},
		{"65a", "", "the IDs of 2 jobs begin with 65a; 65a-1-aa  me  ./solver|65a-2-bb  me  ./other"},
		{"65", "", "the IDs of 3 jobs begin with 65; 65a-1-aa  me  ./solver|65a-2-bb  me  ./other|65c-1-dd  me  4 ranks"},
		{"65b", "", "the IDs of 2 jobs begin with 65b; 65b-1-cc  ben  |65b-9  evil  "},
	} {
		ref, err := job.ParseRef(test.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := resolveName(pages, ref)
		text := ""
		if err != nil {
			text = err.Error() + "; " + strings.Join(usererr.Reasons(err), "|")
		}
		if text != test.err || err == nil && got.Job != test.want {
			t.Errorf("%s: %q, %q, want %q, %q", test.name, got.Job, text, test.want, test.err)
		}
	}
	page := job.LedgerListing{ReaderUID: 5}
	for i := range 100 {
		page.Claims = append(page.Claims, job.Claim{Job: job.ID(fmt.Sprintf("j%02d", i)), UID: 5})
	}
	if _, err := resolveName([]job.LedgerListing{page}, job.JobRef{Job: "j"}); len(usererr.Reasons(err)) != maxListedJobs+1 || usererr.Reasons(err)[maxListedJobs] != "and 92 more" {
		t.Errorf("of 100 jobs it lists %q", usererr.Reasons(err))
	}
}
