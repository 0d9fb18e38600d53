// Package pintest reads captures of nodes (testdata/nodes) for tests. A capture has files of /proc and /sys.
package pintest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"remshell/pin"
)

// CapturedRoot returns the file system of a captured node: the files below "/" that a probe reads. folder is the
// directory of the captures, and name the name of the node. capture.sh in that directory writes the notation.
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

// addLine appends a line to a file of root.
func addLine(root fstest.MapFS, path, line string) {
	if root[path] == nil {
		root[path] = &fstest.MapFile{}
	}
	root[path].Data = append(root[path].Data, line+"\n"...)
}

// CapturedTopology returns the topology of a captured node. allowed lists the usable CPUs, in the kernel's notation.
// If allowed is empty, the processes of the captured node determine the usable CPUs. If the capture does not have
// these, all online CPUs are usable.
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
