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
			keys := make([]string, len(j.clients))
			for rank := range keys {
				keys[rank] = fmt.Sprint("card-", rank)
			}
			card := strings.Repeat("x", 100)
			b.ReportAllocs()
			for b.Loop() {
				err := j.each(func(rank int, c *pmitest.Client) error { return cards(c, keys, rank, card) })
				if err != nil {
					b.Fatal(err)
				}
			}
			gets := float64(b.N) * float64(len(keys)) * float64(len(keys))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/gets, "ns/get")
		})
	}
}

// cards exchanges one key per rank.
func cards(c *pmitest.Client, keys []string, rank int, card string) error {
	if err := c.Put(keys[rank], card); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	for _, key := range keys {
		if got, err := c.GetBytes(key); err != nil || len(got) != len(card) {
			return fmt.Errorf("%s: %q: %v", key, got, err)
		}
	}
	return c.Barrier()
}
