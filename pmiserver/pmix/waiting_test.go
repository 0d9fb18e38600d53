package pmix

import (
	"context"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/bfrops"
)

// A silentNames is a table in which no name is ever found.
type silentNames struct{ Names }

func (silentNames) Await(ctx context.Context, _ string) (Name, error) {
	<-ctx.Done()
	return Name{}, ctx.Err()
}

// WaitingRanks says in words what ranks wait for, and leaves out ranks that no longer wait (PMIX-65).
func TestWaitingRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 8, 6)
		s.Fetcher, s.Names = silentFetcher{}, silentNames{}
		var clients []*testClient
		for rank := range 6 {
			clients = append(clients, initialized(t, s, rank))
		}
		pair := procs(testSpace, 0, testSpace, 5)
		clients[0].send(fenceBody(pair, false))
		clients[1].send(getBody(testSpace, 4, "card"))
		clients[2].send(getBody(testSpace, 7, "btl.tcp.4.1"))
		lookup := bfrops.AppendKeys(bfrops.AppendUint32(body(7), 0), []string{"ocean"})
		clients[3].send(bfrops.AppendInfos(lookup, []bfrops.Info{{Key: "pmix.wait", Value: bfrops.FlagOf(true)}}))
		clients[4].send(fenceBody(all, false))
		synctest.Wait()
		want := map[int]string{
			0: "in fence 1 (1 of 2 ranks have entered)",
			1: "waits for key card of rank 4",
			2: "waits for key btl.tcp.4.1 of rank 7",
			3: "waits for the published name ocean",
			4: "in fence 1 (1 of 6 ranks on this host have entered)",
		}
		got := s.WaitingRanks()
		for rank := range 6 {
			if got[WaitingRank{"k", rank}] != want[rank] {
				t.Errorf("rank %d: %q, want %q", rank, got[WaitingRank{"k", rank}], want[rank])
			}
		}
		s.Freeze()
		clients[5].status(body(finalize))
		synctest.Wait()
		for rank := 1; rank < 4; rank++ {
			if text := s.WaitingRanks()[WaitingRank{"k", rank}]; text != "" {
				t.Errorf("rank %d, which waits no more: %q", rank, text)
			}
		}
		s.Close()
	})
}
