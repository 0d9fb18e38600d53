//go:build linux

package launch_test

import (
	"slices"
	"strings"
	"testing"
)

// newTalk asks for n ranks that say a script (pmitest.Talk) to their PMI server. The
// scripts of those that they spawn are given by name.
func newTalk(n int, script string, scripts map[string]string, nodes ...string) *run {
	r := newRun(n, "", nodes...)
	r.req.Apps[0].Argv = []string{"/proc/self/exe", script}
	r.req.Base.Set = []string{rankMark + "=1", "TALK=/proc/self/exe"}
	for name, script := range scripts {
		r.req.Base.Set = append(r.req.Base.Set, "TALK_"+name+"="+script)
	}
	return r
}

// says runs a job, which must end well, and compares what its ranks have said, in any
// order, with all of these lines.
func (r *run) says(t *testing.T, want ...string) {
	t.Helper()
	result, err := r.do(t)
	got := strings.Split(strings.TrimSuffix(r.out.String(), "\n"), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || result.Code != 0 || r.err.String() != "" || !slices.Equal(got, want) {
		t.Errorf("code %d, %v, stderr %q\n got %q\nwant %q", result.Code, err, r.err.String(), got, want)
	}
}

// Names are published once for the whole job, and found on all nodes.
func TestNames(t *testing.T) {
	newTalk(2, "0: lookup svc; 0: publish svc tag#0$port#4 =; barrier; 1: lookup svc; 1: publish svc q; barrier; "+
		"1: unpublish svc; barrier; 0: lookup svc; 0: unpublish svc", nil, "a", "b").says(t,
		"lookup svc failed: service_not_found",
		"publish svc",
		"lookup svc: tag#0$port#4 =",
		"publish svc failed: key_already_present",
		"unpublish svc",
		"lookup svc failed: service_not_found",
		"unpublish svc failed: service_not_found")
}
