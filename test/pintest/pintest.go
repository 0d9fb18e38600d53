// Package pintest reads captured nodes (testdata/nodes) for tests. It knows nothing of
// what the files of a node mean.
package pintest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/pin"
)

// CapturedRoot makes the file system of a captured node, "/" as far as a probe reads it. folder
// is that of the captures. The notation is that of capture.sh there.
func CapturedRoot(t testing.TB, folder, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(folder + "/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	root := make(fstest.MapFS)
	for line := range strings.Lines(string(text)) {
		path, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		front, back, starred := strings.Cut(path, "*")
		if !starred {
			addLine(root, path, content)
			continue
		}
		list, content, _ := strings.Cut(content, " ")
		cpus, err := pin.ParseCPUs(list)
		if err != nil || len(cpus) == 0 {
			t.Fatalf("%s: %q: no list of CPUs: %v", name, line, err)
		}
		for _, cpu := range cpus {
			addLine(root, fmt.Sprint(front, cpu, back), content)
		}
	}
	return root
}

// addLine adds a line to a file.
func addLine(root fstest.MapFS, path, line string) {
	if root[path] == nil {
		root[path] = &fstest.MapFile{}
	}
	root[path].Data = append(root[path].Data, line+"\n"...)
}

// CapturedTopology is that of a captured node. The CPUs that may be used are those given, in
// the kernel's notation; "": those that the node's processes could use, or else all.
func CapturedTopology(t testing.TB, folder, name, allowed string) pin.Topology {
	t.Helper()
	root := CapturedRoot(t, folder, name)
	if status := root["proc/self/status"]; allowed == "" && status != nil {
		_, allowed, _ = strings.Cut(strings.TrimSpace(string(status.Data)), "\t")
	}
	if online := root["sys/devices/system/cpu/online"]; allowed == "" && online != nil {
		allowed = strings.TrimSpace(string(online.Data))
	}
	cpus, err := pin.ParseCPUs(allowed)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := root.Sub("sys")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := pin.ReadTopology(sys, cpus)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return topology
}
