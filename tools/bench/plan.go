//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
)

// writeState writes a file with a cluster state for mpiexec --plan --cluster-state. The state contains 10,000 nodes
// with 128 CPUs each. Each core has two hardware threads.
func writeState(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	w.WriteString(`{"version": 1, "env": {}, "nodes": [`)
	for i := range 10_000 {
		if i > 0 {
			w.WriteString(",\n")
		}
		fmt.Fprintf(w, `{"id": %d, "name": "node%05d", "cpus": 128, "threads_per_core": 2, "numa_nodes": 8, "load": [%d.25, 0.5, 0.5]}`, i, i, i%7)
	}
	w.WriteString("]}\n")
	return w.Flush()
}
