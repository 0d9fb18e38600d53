package reserve

import (
	"testing"
	"time"

	"remshell/job"
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
