package pmiserver_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"remshell/pmiserver"
	"remshell/pmiserver/pmitest"
)

// BenchmarkExchange is what an MPI_Init of many ranks asks of us: one put, a
// barrier, a get of every rank's key, a barrier. The clients run in this process
// and are part of the figure.
func BenchmarkExchange(b *testing.B) {
	for _, shape := range []struct{ nodes, per int }{{1, 128}, {1, 512}, {8, 16}, {8, 64}} {
		b.Run(fmt.Sprintf("%dx%d", shape.nodes, shape.per), func(b *testing.B) {
			j := startJob(shape.nodes, shape.per, socketPair)
			defer j.end()
			if err := j.each(func(_ int, c *pmitest.Client) error { return c.Init() }); err != nil {
				b.Fatal(err)
			}
			size := len(j.clients)
			card := strings.Repeat("x", 100)
			b.ReportAllocs()
			for b.Loop() {
				err := j.each(func(rank int, c *pmitest.Client) error { return c.Exchange(rank, size, card) })
				if err != nil {
					b.Fatal(err)
				}
			}
			gets := float64(b.N) * float64(size) * float64(size)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/gets, "ns/get")
		})
	}
}

// BenchmarkPut is a put as a rank sees it, through a socket.
func BenchmarkPut(b *testing.B) {
	one(b, func(c *pmitest.Client, i int) error { return c.Put(fmt.Sprint("key-", i%1000), "value") })
}

// BenchmarkGetOverSocket is a get as a rank sees it; BenchmarkGet is our part of it.
func BenchmarkGetOverSocket(b *testing.B) {
	one(b, func(c *pmitest.Client, _ int) error {
		_, err := c.GetBytes("key")
		return err
	})
}

// one repeats what a single rank does.
func one(b *testing.B, do func(*pmitest.Client, int) error) {
	j := startJob(1, 1, socketPair)
	defer j.end()
	c := j.clients[0]
	if err := c.Init(); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if err := do(c, i); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFence is a barrier of all ranks, without and with a put of each.
func BenchmarkFence(b *testing.B) {
	for _, shape := range []struct{ nodes, per, puts int }{{1, 64, 0}, {1, 64, 1}, {8, 16, 0}, {8, 16, 1}, {64, 1, 1}} {
		b.Run(fmt.Sprintf("%dx%d/%d", shape.nodes, shape.per, shape.puts), func(b *testing.B) {
			j := startJob(shape.nodes, shape.per, socketPair)
			defer j.end()
			if err := j.each(func(_ int, c *pmitest.Client) error { return c.Init() }); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				err := j.each(func(rank int, c *pmitest.Client) error {
					for range shape.puts {
						if err := c.Put(fmt.Sprint("card-", rank), "description#10.0.0.1$port#40123$ifname#10.0.0.1$"); err != nil {
							return err
						}
					}
					return c.Barrier()
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*shape.nodes*shape.per)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkFleet is the start of a large job, in this one process: init, a put, a
// fence, some gets, finalize, of each rank; and what the hub has to hold and to send.
func BenchmarkFleet(b *testing.B) {
	for _, shape := range []struct{ nodes, per int }{{100, 16}, {1000, 64}} {
		b.Run(fmt.Sprintf("%dx%d", shape.nodes, shape.per), func(b *testing.B) {
			if testing.Short() && shape.nodes > 100 {
				return // needs some GiB
			}
			size := shape.nodes * shape.per
			for b.Loop() {
				var up, down atomic.Int64
				j := startFleet(shape.nodes, shape.per, &up, &down)
				err := j.each(func(rank int, c *pmitest.Client) error { return start(c, rank, size) })
				if err != nil {
					b.Fatal(err)
				}
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				j.end()
				b.ReportMetric(float64(memory.HeapAlloc)/float64(size), "heap-bytes/rank")
				b.ReportMetric(float64(up.Load())/float64(shape.nodes), "up-bytes/node")
				b.ReportMetric(float64(down.Load())/float64(shape.nodes), "down-bytes/node")
			}
		})
	}
}

// start is what a rank asks when it starts; it knows 20 others.
func start(c *pmitest.Client, rank, size int) error {
	if err := c.Init(); err != nil {
		return err
	}
	card := fmt.Sprintf("description#10.%d.%d.%d$port#%d$ifname#10.0.0.1$", rank>>16, rank>>8&255, rank&255, 32768+rank%28000)
	if err := c.Put(fmt.Sprintf("P%d-businesscard", rank), card); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	for i := range 20 {
		key := fmt.Sprintf("P%d-businesscard", (rank+i*i*i)%size)
		if got, err := c.GetBytes(key); err != nil || got == nil {
			return fmt.Errorf("%s: %q %v", key, got, err)
		}
	}
	return c.Finalize()
}

// A counted fencer counts what goes over the wire.
type counted struct {
	pmiserver.Fencer
	up, down *atomic.Int64
}

func (f counted) Fence(ctx context.Context, id string, mine []byte) ([][]byte, error) {
	all, err := f.Fencer.Fence(ctx, id, mine)
	f.up.Add(int64(len(mine)))
	for _, blob := range all {
		f.down.Add(int64(len(blob)))
	}
	return all, err
}

func startFleet(nodes, per int, up, down *atomic.Int64) *jobOf {
	return startJobWith(nodes, per, netPipe, func(f pmiserver.Fencer) pmiserver.Fencer { return counted{f, up, down} })
}
