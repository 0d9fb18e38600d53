package pmiserver_test

import (
	"fmt"
	"strings"
	"testing"

	"remshell/test/pmitest"
)

// BenchmarkExchange makes the requests of MPI_Init with many ranks: a put, a barrier, a get of every
// rank's key, a barrier. The time includes the clients, which run in this process.
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

// BenchmarkPut measures a put through a socket, from the rank's side.
func BenchmarkPut(b *testing.B) {
	one(b, func(c *pmitest.Client, i int) error { return c.Put(fmt.Sprint("key-", i%1000), "value") })
}

// BenchmarkGetOverSocket measures a get from the rank's side; BenchmarkGet measures the server alone.
func BenchmarkGetOverSocket(b *testing.B) {
	one(b, func(c *pmitest.Client, _ int) error {
		_, err := c.GetBytes("key")
		return err
	})
}

// one repeats a request of a single rank.
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

// BenchmarkFence measures a barrier of all ranks, without and with a put by each.
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
