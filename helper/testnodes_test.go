//go:build linux

package helper

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remshell/helper/rpc"
	"remshell/pmiserver"
	"remshell/pmiserver/fence"
	"remshell/test/pmitest"
	"remshell/wire"
)

// A testNodes is the PMI of a job in one process: a fence coordinator, as mpiexec has it, and nodes connected to it by
// pipes. Each node has a PMI server and ranks. No process is started.
//
//	rank --- pipe ---> server --- fences --- wire over a pipe --- coordinator
type testNodes struct {
	size        int
	coordinator *fence.Coordinator
	conns       []*wire.Conn // the coordinator's ends
	ranks       []*pmitest.Client
	bytesUp     atomic.Int64 // bytes from the nodes to the coordinator
	bytesDown   atomic.Int64
	open        []io.Closer
	all         sync.WaitGroup
}

func newTestNodes(nodes, per int) *testNodes {
	f := &testNodes{size: nodes * per, coordinator: fence.NewCoordinator()}
	list, home := make([]int, nodes), make([]int, f.size)
	for i := range list {
		list[i] = i
	}
	for rank := range home {
		home[rank] = rank / per
	}
	f.coordinator.AddGroup("k0", list, home)
	f.conns = make([]*wire.Conn, nodes)
	far := make([]*wire.Conn, nodes)
	for i := range nodes {
		a, b := net.Pipe()
		f.conns[i] = wire.NewConn(countedConn{a, &f.bytesUp, &f.bytesDown}, wire.Launcher)
		far[i] = wire.NewConn(b, wire.Helper)
	}
	for i := range nodes {
		f.all.Go(func() { f.serve(i) })
		f.node(i, per, far[i])
	}
	return f
}

// serve is mpiexec's part for one node.
func (f *testNodes) serve(node int) {
	for {
		m, err := f.conns[node].Recv()
		if err != nil {
			return
		}
		asked := m.(*wire.Fence)
		id, err := fence.ParseID(asked.ID)
		if err != nil {
			panic(err)
		}
		done, err := f.coordinator.Join(node, id, asked.Blob)
		if err != nil {
			panic(err)
		}
		if done != nil {
			fenced := wire.Fenced{ID: asked.ID, Blobs: done.Blobs}
			frame := fenced.FrameFor(len(done.Nodes))
			for _, i := range done.Nodes {
				f.conns[i].SendFrame(frame)
			}
		}
	}
}

// node is the helper's part.
func (f *testNodes) node(i, per int, conn *wire.Conn) {
	others := rpc.NewFences(conn.Send)
	f.all.Go(func() {
		for {
			m, err := conn.Recv()
			if err != nil {
				others.Fail(err)
				return
			}
			others.Deliver(m.(*wire.Fenced))
		}
	})
	info := pmiserver.Info{Name: "k0", Size: f.size}
	for r := range per {
		info.Ranks = append(info.Ranks, i*per+r)
	}
	server := pmiserver.New(info, others)
	for _, rank := range info.Ranks {
		mine, theirs := newPipeConn()
		f.ranks = append(f.ranks, pmitest.NewClient(mine))
		f.open = append(f.open, mine)
		f.all.Go(func() {
			if err := server.Serve(context.Background(), rank, theirs); err != nil {
				panic(err)
			}
		})
	}
	f.open = append(f.open, closer(conn.Abandon), closer(f.conns[i].Abandon))
}

type closer func() error

func (c closer) Close() error { return c() }

// each runs do for all ranks at once, and returns one of the errors.
func (f *testNodes) each(do func(rank int, c *pmitest.Client) error) error {
	errs := make(chan error, 1)
	var all sync.WaitGroup
	for rank, c := range f.ranks {
		all.Go(func() {
			if err := do(rank, c); err != nil {
				select {
				case errs <- err:
				default:
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func (f *testNodes) end() {
	for _, c := range f.open {
		c.Close()
	}
	f.all.Wait()
}

// A countedConn counts the bytes in both directions of a connection.
type countedConn struct {
	net.Conn
	in, out *atomic.Int64
}

func (m countedConn) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.in.Add(int64(n))
	return n, err
}

func (m countedConn) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.out.Add(int64(n))
	return n, err
}

// A pipeConn is one end of a buffered stream, like a socket: a write does not wait. It costs a fifth of net.Pipe,
// which is too slow for 64 million gets.
type pipeConn struct{ in, out *bytePipe }

func newPipeConn() (a, b pipeConn) {
	one, other := newBytePipe(), newBytePipe()
	return pipeConn{one, other}, pipeConn{other, one}
}

func (d pipeConn) Read(p []byte) (int, error)  { return d.in.read(p) }
func (d pipeConn) Write(p []byte) (int, error) { return d.out.write(p) }

func (d pipeConn) Close() error {
	d.in.close()
	d.out.close()
	return nil
}

type bytePipe struct {
	mu     sync.Mutex // guards the fields below
	buf    []byte
	closed bool
	filled sync.Cond
}

func newBytePipe() *bytePipe {
	h := new(bytePipe)
	h.filled.L = &h.mu
	return h
}

func (h *bytePipe) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 && !h.closed {
		h.filled.Wait()
	}
	if len(h.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, h.buf)
	h.buf = h.buf[:copy(h.buf, h.buf[n:])]
	return n, nil
}

func (h *bytePipe) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p...)
	h.filled.Signal()
	return len(p), nil
}

func (h *bytePipe) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.filled.Signal()
}

// card returns a rank's address data, as long as with real networks.
func card(rank int) string {
	return fmt.Sprintf("description#node%04d$port#%d$ifname#10.%d.%d.%d$", rank/64, 32768+rank%28000, rank>>16, rank>>8&255, rank&255)
}

// start sends the requests of a rank that starts, and gets the data of so many other ranks.
func start(c *pmitest.Client, rank, size, gets int) error {
	if err := c.Init(); err != nil {
		return err
	}
	if err := c.Put(fmt.Sprintf("P%d-businesscard", rank), card(rank)); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	var key []byte
	for i := range gets {
		key = fmt.Appendf(key[:0], "P%d-businesscard", (rank+i*i*i)%size)
		got, err := c.GetBytes(string(key))
		if err != nil || i%100 == 0 && string(got) != card((rank+i*i*i)%size) {
			return fmt.Errorf("%s: %q %v", key, got, err)
		}
	}
	return c.Finalize()
}

// TestPMIOfManyNodes checks that each rank gets what all others put, and that no more than that goes over the wire, and much
// less if it is packed.
func TestPMIOfManyNodes(t *testing.T) {
	for _, test := range []struct{ nodes, per, part int }{{20, 8, 1}, {20, 50, 5}} {
		f := newTestNodes(test.nodes, test.per)
		err := f.each(func(rank int, c *pmitest.Client) error { return start(c, rank, f.size, 50) })
		f.end()
		if err != nil {
			t.Fatal(err)
		}
		put := 0
		for rank := range f.size {
			put += len(fmt.Sprintf("P%d-businesscard", rank)) + len(card(rank)) + 2
		}
		if got := int(f.bytesUp.Load()); got > put+test.nodes*20 {
			t.Errorf("%d bytes to the coordinator, of %d that were put", got, put)
		}
		if got := int(f.bytesDown.Load()) / test.nodes; got > put/test.part+test.nodes*3+20 {
			t.Errorf("%d bytes to each node, of %d that were put", got, put)
		}
	}
}

// BenchmarkPMIOfManyNodes is the start of a large job: init, a put, a fence, a thousand gets and finalize of each rank. All
// ranks, nodes and the coordinator share this process.
func BenchmarkPMIOfManyNodes(b *testing.B) {
	for _, shape := range []struct{ nodes, per, gets int }{{100, 16, 1000}, {1000, 64, 20}, {1000, 64, 1000}} {
		b.Run(fmt.Sprintf("%dx%d/%d", shape.nodes, shape.per, shape.gets), func(b *testing.B) {
			if testing.Short() && shape.nodes > 100 {
				return // needs 10 GB and minutes
			}
			for b.Loop() {
				f := newTestNodes(shape.nodes, shape.per)
				began := time.Now()
				err := f.each(func(rank int, c *pmitest.Client) error { return start(c, rank, f.size, shape.gets) })
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(began)
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				f.end()
				b.ReportMetric(took.Seconds(), "s")
				b.ReportMetric(float64(took.Nanoseconds())/float64(f.size*shape.gets), "ns/get")
				b.ReportMetric(float64(memory.Sys)/1e6, "sys-MB")
				b.ReportMetric(float64(f.bytesUp.Load())/float64(shape.nodes), "up-bytes/node")
				b.ReportMetric(float64(f.bytesDown.Load())/float64(shape.nodes), "down-bytes/node")
			}
		})
	}
}

// A blockedConn is a stream that accepts nothing.
type blockedConn chan struct{}

func (s blockedConn) Read([]byte) (int, error) { <-s; return 0, io.EOF }
func (s blockedConn) Close() error             { return nil }

func (s blockedConn) Write(p []byte) (int, error) {
	<-s
	runtime.KeepAlive(p)
	return 0, io.ErrClosedPipe
}

// BenchmarkFenceCoordinator measures mpiexec's part of a fence with 64 ranks on each node: the memory after all replies are queued
// and no node has read any, without the connections, and the time.
func BenchmarkFenceCoordinator(b *testing.B) {
	for _, nodes := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				coordinator, list, gate := fence.NewCoordinator(), make([]int, nodes), make(blockedConn)
				conns := make([]*wire.Conn, nodes)
				for i := range nodes {
					list[i], conns[i] = i, wire.NewConn(gate, wire.Launcher)
				}
				coordinator.AddGroup("k0", list, list)
				before := heap()
				b.StartTimer()
				sent := fenceAll(coordinator, conns)
				b.StopTimer()
				b.ReportMetric(float64(heap()-before)/1e6, "heap-MB")
				b.ReportMetric(float64(before)/float64(nodes), "heap-bytes/conn")
				b.ReportMetric(float64(sent), "bytes/node")
				close(gate)
				for _, c := range conns {
					c.Abandon()
				}
				b.StartTimer()
			}
		})
	}
}

// heap returns the memory in use, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the second one frees what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fenceAll lets all nodes enter a fence, and returns how many bytes each receives.
func fenceAll(coordinator *fence.Coordinator, conns []*wire.Conn) int {
	const per = 64
	for n := range conns {
		var blob []byte
		for r := n * per; r < (n+1)*per; r++ {
			key, value := fmt.Sprintf("P%d-businesscard", r), card(r)
			blob = append(append(append(append(blob, byte(len(key))), key...), byte(len(value))), value...)
		}
		done, err := coordinator.Join(n, fence.ID{Members: "k0"}, blob)
		if err != nil {
			panic(err)
		}
		if done != nil {
			fenced := wire.Fenced{ID: "k0/0", Blobs: done.Blobs}
			frame := fenced.FrameFor(len(done.Nodes))
			for _, c := range conns {
				c.SendFrame(frame)
			}
			return len(frame)
		}
	}
	return 0
}
