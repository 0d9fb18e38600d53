package pmix

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"remshell/pmiserver/fence"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
)

// card is the data that a rank commits: as much as Open MPI's with TCP.
var card = bfrops.AppendPair(nil, "btl.tcp.4.1", bfrops.TextOf(strings.Repeat("x", 100)))

// overSockets returns clients of ranks 0 to n-1, connected through the server's port as real ranks are.
func overSockets(b *testing.B, s *Server, n int) (clients []*testClient) {
	b.Helper()
	uri, err := s.Listen()
	if err != nil {
		b.Fatal(err)
	}
	for rank := range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(uri, "tcp4://"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		c := &testClient{t: b, conn: conn, tag: 100}
		c.write(handshake(testSpace, uint32(rank), nil))
		if status := c.welcome(); status != message.Success {
			b.Fatal(status)
		}
		c.request(body(req))
		c.status(bfrops.AppendBuffer(bfrops.AppendByte(body(commit), uint8(message.ScopeLocal)), card))
		c.status(bfrops.AppendBuffer(bfrops.AppendByte(body(commit), uint8(message.ScopeRemote)), card))
		clients = append(clients, c)
	}
	return clients
}

// BenchmarkGet measures a Get of a rank of the same node, including the client's socket.
func BenchmarkGet(b *testing.B) {
	s, _ := newTestServer(b, 2, 2)
	c := overSockets(b, s, 2)[0]
	question := getBody(testSpace, 1, "btl.tcp.4.1")
	for b.Loop() {
		c.request(question)
	}
}

// BenchmarkFence measures a fence of 256 ranks of a node, from the last call to the last reply.
func BenchmarkFence(b *testing.B) {
	s, _ := newTestServer(b, 256, 256)
	clients := overSockets(b, s, 256)
	question := fenceBody(all, false)
	var took time.Duration
	for b.Loop() {
		for _, c := range clients[1:] {
			c.send(question)
		}
		began := time.Now()
		clients[0].send(question)
		for _, c := range clients {
			c.receive()
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/last")
}

// others is the other nodes of a job. The data of their ranks is made when a fence requests it.
type others struct{ nodes, per int }

func (o others) Exchange(_ context.Context, _ fence.ID, mine []byte) ([][]byte, error) {
	blobs := [][]byte{mine}
	for node := 1; node < o.nodes; node++ {
		var blob []byte
		for i := range o.per {
			blob = append(blob, 0) // the set's first group
			blob = binary.AppendUvarint(blob, uint64(node*o.per+i))
			blob = append(blob, 0) // from the first byte on
			blob = binary.AppendUvarint(blob, uint64(len(card)))
			blob = append(blob, card...)
		}
		blobs = append(blobs, blob)
	}
	return blobs, nil
}

func (o others) GiveUp(fence.ID, bool) {}

// BenchmarkLargeJob measures the memory of a node's server after all ranks of a large job have exchanged
// data: for each of its 64 ranks, and for each rank of the job. It also measures the time of that fence.
func BenchmarkLargeJob(b *testing.B) {
	const nodes, per = 1000, 64
	for b.Loop() {
		before := live()
		s := &Server{UID: testUID, SocketOwner: func(net.Conn) (uint32, error) { return testUID, nil }, Links: Links{OtherNodes: others{nodes, per}}}
		g := testGroup(nodes*per, per, make(chan reported, 1<<10))
		g.Job = func(context.Context) (jobinfo.Job, error) { return largeJob(nodes, per), nil }
		s.AddGroup(g)
		clients := overSockets(b, s, per)
		for _, c := range clients {
			c.send(fenceBody(all, true))
		}
		for _, c := range clients {
			c.receive()
		}
		if keys := keysIn(clients[0].request(getBody(testSpace, nodes*per-1, "btl.tcp.4.1"))); len(keys) != 1 {
			b.Fatalf("the last rank has brought %q", keys)
		}
		kept := float64(live() - before)
		b.ReportMetric(kept/per/1024, "KiB/rank")
		b.ReportMetric(kept/(nodes*per), "B/rank-of-job")
		for _, c := range clients {
			c.conn.Close()
		}
		s.Close()
	}
}

// largeJob is a job whose ranks are placed cyclically over the nodes.
func largeJob(nodes, per int) jobinfo.Job {
	j := jobinfo.Job{Namespace: testSpace, Server: "srv", Apps: []int{nodes * per}, Universe: nodes * per, FullUpTo: jobinfo.FullRanks}
	for node := range nodes {
		j.Nodes = append(j.Nodes, jobinfo.Node{Name: fmt.Sprintf("node%04d", node)})
		for range per {
			j.NodeOf = append(j.NodeOf, node)
		}
	}
	return j
}

// live returns the number of bytes of memory in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
