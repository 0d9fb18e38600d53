package launch

import (
	"testing"

	"remshell/job"
)

// A limited number of kept directories is listed, with the number of the others.
func TestFormatKeptSessions(t *testing.T) {
	hosts := []job.NodeTotal{{Node: "a", KeptSessions: []string{"/tmp/rs-1"}}, {Node: "b"}, {Node: "c", KeptSessions: []string{"/tmp/rs-2", "/tmp/rs-3"}}}
	const want = "Open MPI's session directory was not removed: c:/tmp/rs-3"
	if got := formatKeptSessions(hosts); len(got) != 3 || got[2] != want || formatKeptSessions(hosts[1:2]) != nil {
		t.Errorf("told is %q", got)
	}
	hosts[1].KeptSessions = make([]string, maxKeptShown)
	if got := formatKeptSessions(hosts); len(got) != maxKeptShown+1 || got[maxKeptShown] != "3 more session directories were not removed; --report lists all" {
		t.Errorf("told is %q", got)
	}
}
