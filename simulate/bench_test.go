package simulate

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// largeState returns a state file of nodes with 128 cores of two threads each. If busy is true, other jobs
// use half of them.
func largeState(nodes int, busy bool) []byte {
	var b bytes.Buffer
	b.WriteString(`{"version": 1, "env": {}, "np": 1, "nodes": [`)
	for i := range nodes {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"id": %d, "name": "node%05d", "cpus": 128, "threads_per_core": 2, "numa_nodes": 8, "load": [%d.25, 0.5, 0.5]`, i, i, i%7)
		if busy {
			fmt.Fprintf(&b, `, "procs": 2, "busy_cpus": [%d, 17]`, i%128)
		}
		b.WriteString("}")
	}
	b.WriteString("]}")
	return b.Bytes()
}

// The goal is a plan of a million ranks on 10,000 nodes from a file in 2 s and 2 GiB, and the same cost
// for each rank from 1,000 to 1,000,000.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct {
		name         string
		nodes, ranks int
		busy         bool
		env          string
	}{
		{"ranks=1000", 10, 1000, false, ""},
		{"ranks=10000", 100, 10000, false, ""},
		{"ranks=100000", 1000, 100000, false, ""},
		{"ranks=1000000", 10000, 1000000, false, ""},
		{"ranks=1000000/shared", 10000, 1000000, true, ""},
		{"ranks=1000000/cyclic", 10000, 1000000, false, `"PSI_LOOP_NODES_FIRST": "", "PSI_NODES_SORT": "load"`},
		{"ranks=1000000/overbooked", 1000, 1000000, false, `"PSI_OVERBOOK": ""`},
	} {
		data := bytes.Replace(largeState(size.nodes, size.busy), []byte(`"env": {}`), []byte(`"env": {`+size.env+`}`), 1)
		np := fmt.Sprint(size.ranks)
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				s, err := Parse(data)
				if err != nil {
					b.Fatal(err)
				}
				none := func(string) (string, bool) { return "", false }
				o := s.Decide(s.PSIInput(np, s.Flags, none, nil))
				if !o.HasPlan() {
					b.Fatal(o.Err)
				}
				if err := Write(io.Discard, o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.ranks), "ns/rank")
			b.ReportAllocs()
		})
	}
}
