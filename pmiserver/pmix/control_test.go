package pmix

import (
	"slices"
	"strings"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A rank registers files to be removed after it. It cannot have other processes ended.
func TestFilesThatARankLeaves(t *testing.T) {
	s, reports := newTestServer(t, 2, 0)
	g := testGroup(2, 2, reports)
	g.Name, g.Namespace = "other", testSpace+"1"
	left := make(chan []string, 1)
	g.Cleanup = func(rank int, files []string) []string {
		if rank != 1 {
			t.Errorf("rank %d leaves %q", rank, files)
		}
		left <- files
		return nil
	}
	s.AddGroup(g)
	c := connectRaw(t, s, handshake(g.Namespace, 1, nil))
	c.welcome()
	for _, test := range []struct {
		key   string
		value bfrops.Value
		want  message.Status
	}{
		{"pmix.reg.cleanup", bfrops.TextOf("/dev/shm/a,/dev/shm/b"), message.Success},
		{"pmix.jctrl.kill", bfrops.FlagOf(true), message.NotSupported},
	} {
		request := bfrops.AppendInfos(bfrops.AppendProcs(body(18), nil), []bfrops.Info{{Key: test.key, Value: test.value}})
		if status := c.status(request); status != test.want {
			t.Errorf("%s: %v, want %v", test.key, status, test.want)
		}
	}
	if files := <-left; !slices.Equal(files, []string{"/dev/shm/a", "/dev/shm/b"}) || len(left) > 0 {
		t.Errorf("left are %q", files)
	}
}

// At most 100 notes are reported about a rank, however many bad requests it sends.
func TestNotesOfARankAreBounded(t *testing.T) {
	s, reports := newTestServer(t, 1, 0)
	g := testGroup(1, 1, reports)
	g.Name, g.Namespace = "other", testSpace+"1"
	g.Cleanup = func(_ int, files []string) []string { return files }
	s.AddGroup(g)
	c := connectRaw(t, s, handshake(g.Namespace, 0, nil))
	c.welcome()
	foreign := bfrops.Info{Key: "pmix.reg.cleanup", Value: bfrops.TextOf("/etc/passwd")}
	for range 2 * maxNotes {
		c.status(bfrops.AppendInfos(bfrops.AppendProcs(body(18), nil), []bfrops.Info{foreign}))
	}
	notes, last := len(reports), ""
	for range notes {
		last = (<-reports).what
	}
	if notes != maxNotes || last != `note: PMIx: mpiexec will not remove the file "/etc/passwd", because the rank has no right to request that; further messages about PMIx from this rank are not shown` {
		t.Errorf("%d notes, the last %q", notes, last)
	}
}

// A query returns that there are no process sets besides those of MPI. A query with any other key is
// refused as a whole.
func TestQueries(t *testing.T) {
	s, _ := newTestServer(t, 1, 1)
	c := initialized(t, s, 0)
	const unknown = "pmix.qry.ns" // namespaces are secrets (PMIX-19)
	for keys, want := range map[string]message.Status{
		"pmix.qry.psetnum": message.Success, "pmix.qry.psetnum,pmix.qry.psets": message.Success,
		unknown: message.NotSupported, "pmix.qry.psetnum," + unknown: message.NotSupported,
	} {
		asked := strings.Split(keys, ",")
		r := bfrops.NewReader(c.request(bfrops.AppendQueries(body(15), []bfrops.Question{{Keys: asked}})))
		if got := message.Status(r.Status()); got != want {
			t.Errorf("%s: %v, want %v", keys, got, want)
			continue
		}
		if want != message.Success {
			continue
		}
		infos := r.Infos()
		if r.Err() != nil || len(infos) != len(asked) || infos[0].Key != asked[0] {
			t.Errorf("%s: got %v, %v", keys, infos, r.Err())
		}
		if n, ok := infos[0].Value.Number(); !ok || n != 0 || infos[0].Value.Type != bfrops.Size {
			t.Errorf("%s: %+v", keys, infos[0])
		}
	}
}
