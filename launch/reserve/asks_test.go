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
