package pmiserver_test

import (
	"fmt"
	"strings"
	"testing"

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
