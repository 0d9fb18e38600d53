package pmiserver_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"remshell/pmiserver"
)

// One that aborts because another one has must not look like one that failed by itself:
// the server tells of it, though it answers nobody any more. And while ranks wait in a
// barrier, it tells in which.
func TestAllAbortsAndBarriersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 3, Ranks: []int{0, 1, 2}}, nil)
		var aborted, told []int
		s.Abort = func(rank, code int, _ string) { told = append(told, rank, code) }
		s.AbortRequested = func(rank int) { aborted = append(aborted, rank) }
		var conns []net.Conn
		for rank := range 3 {
			mine, theirs := net.Pipe()
			go s.Serve(context.Background(), rank, theirs)
			fmt.Fprint(mine, "cmd=init pmi_version=1 pmi_subversion=1\n")
			mine.Read(make([]byte, 200))
			conns = append(conns, mine)
		}
		if got := s.Barrier(0); got != 0 {
			t.Errorf("nobody is in a barrier, and rank 0 in number %d", got)
		}
		fmt.Fprint(conns[0], "cmd=barrier_in\n")
		synctest.Wait()
		if a, b, none := s.Barrier(0), s.Barrier(1), s.Barrier(99); a != 1 || b != 0 || none != 0 {
			t.Errorf("rank 0 is in barrier %d, rank 1 in %d, nobody in %d", a, b, none)
		}
		fmt.Fprint(conns[1], "cmd=abort exitcode=7\n")
		synctest.Wait()
		fmt.Fprint(conns[2], "cmd=abort exitcode=1\n")
		synctest.Wait()
		for _, c := range conns {
			c.Close()
		}
		synctest.Wait()
		if !slices.Equal(told, []int{1, 7}) || !slices.Equal(aborted, []int{1, 2}) {
			t.Errorf("told %v, aborted %v", told, aborted)
		}
	})
}
