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

// A rank that aborts after another one must not look as if it failed by itself. The server reports it,
// though it sends no more replies. And while ranks wait in a barrier, the server reports which.
func TestAllAbortsAndBarriersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pmiserver.New(pmiserver.Info{Name: "k0", Size: 3, Ranks: []int{0, 1, 2}}, nil)
		var aborted, reported []int
		s.Abort = func(rank, code int, _ string) { reported = append(reported, rank, code) }
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
		if !slices.Equal(reported, []int{1, 7}) || !slices.Equal(aborted, []int{1, 2}) {
			t.Errorf("reported %v, aborted %v", reported, aborted)
		}
	})
}
