package pmix

import (
	"slices"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// What a rank leaves behind it says as it makes it; it cannot have others ended.
func TestFilesThatARankLeaves(t *testing.T) {
	s, told := newTestServer(t, 2, 0)
	g := testGroup(2, 2, told)
	g.Name, g.Namespace = "other", testSpace+"1"
	left := make(chan []string, 1)
	g.Leaves = func(rank int, files []string) {
		if rank != 1 {
			t.Errorf("rank %d leaves %q", rank, files)
		}
		left <- files
	}
	s.Add(g)
	c := come(t, s, handshake(g.Namespace, 1, nil))
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
