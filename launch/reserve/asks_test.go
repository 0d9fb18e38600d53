package reserve

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"remshell/job"
	"remshell/wire"
)

// Only a job that has to claim its CPUs again goes on behind the gate, and of several of ours the last is the youngest.
func TestWhichJobIsMeant(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	pages := []job.Page{
		{Node: "n1", UID: 5, Claims: []job.Claim{{Job: "old", UID: 5, Since: at(1)}, {Job: "his", UID: 7, Since: at(9), Suspended: true}}},
		{Node: "n2", UID: 5, Claims: []job.Claim{{Job: "old", UID: 5, Since: at(1), Suspended: true}, {Job: "new", UID: 5, Since: at(2)}}},
	}
	for id, want := range map[job.ID]struct {
		id     job.ID
		vacant bool
	}{job.LastJob: {"new", false}, "old": {"old", true}, "new": {"new", false}, "his": {"his", true}, "none": {"none", false}} {
		if got := youngest(pages, id); got != want.id || vacant(pages, got) != want.vacant {
			t.Errorf("%s is %s, vacant %v; want %+v", id, got, vacant(pages, got), want)
		}
	}
}

// A word with a job goes to a node on which it has ranks: on one that it holds in reserve nobody hears it.
func TestByWhomAJobIsAsked(t *testing.T) {
	claim := func(uid int, why job.Resting) job.Claim { return job.Claim{Job: "j", UID: uid, Resting: why} }
	page := func(claims ...job.Claim) job.Page { return job.Page{UID: 1, Claims: claims} }
	for _, test := range []struct {
		name  string
		pages []job.Page
		at    int
		hears bool
	}{
		{"nowhere", []job.Page{page(job.Claim{Job: "other", UID: 1})}, -1, false},
		{"the first", []job.Page{page(), page(claim(1, "")), page(claim(1, ""))}, 1, true},
		{"ours", []job.Page{page(claim(2, "")), page(claim(1, ""))}, 1, true},
		{"another user's", []job.Page{page(claim(2, job.Spare)), page(claim(2, ""))}, 1, true},
		{"a spare is the first", []job.Page{page(claim(1, job.Spare)), page(claim(1, ""))}, 1, true},
		{"between two attempts", []job.Page{page(claim(1, job.Spare)), page(claim(1, job.Restarting))}, 1, true},
		{"being moved", []job.Page{page(claim(1, job.Spare), claim(1, ""))}, 0, true},
		{"spares alone", []job.Page{page(), page(claim(1, job.Spare))}, 1, false},
	} {
		if at, hears := byWhom(test.pages, "j"); at != test.at || hears != test.hears {
			t.Errorf("%s: %d, %v, want %d, %v", test.name, at, hears, test.at, test.hears)
		}
	}
}

// Who asks a job for what takes the job's own time waits that long: a checkpoint may be written after more than ten minutes. Of
// a helper that says nothing to what needs no time we hear the end.
func TestAnAskWaitsAsLongAsTheJobTakes(t *testing.T) {
	for verb, waits := range map[job.Verb]bool{job.AskCheckpoint: true, job.AskMigrate: true, job.AskEnd: true, job.AskSuspend: true, job.AskStatus: false} {
		synctest.Test(t, func(t *testing.T) {
			const late = 3 * time.Hour // --ckpt-grace 4h, say
			s := newCast(func(c *wire.Conn, _ string, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.List:
					c.Send(&wire.Listed{UID: 5, Claims: []job.Claim{{Job: "j", UID: 5}}})
				case *wire.Ask:
					time.AfterFunc(late, func() { c.Send(&wire.Answer{ID: m.ID, State: job.AskDone, Text: "it is written"}) })
				default:
					return false
				}
				return true
			})
			r := s.request(func(*job.Request) {}, "a")
			signals := make(chan os.Signal)
			defer close(signals)
			r.env.Signals = signals
			asked, err := Ask(t.Context(), r.req, r.env, job.Ask{Job: "j", Verb: verb})
			if done := asked.Answer.State == job.AskDone; done != waits || err != nil && waits {
				t.Errorf("%s: %+v, %v", verb, asked, err)
			}
			time.Sleep(late)
			synctest.Wait()
		})
	}
}
