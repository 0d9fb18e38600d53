package pin

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parsePicture parses the notation of testdata/pin/picture.txt.
func parsePicture(t *testing.T, text string) (node Topology) {
	t.Helper()
	text, unknown := strings.CutPrefix(text, "?")
	at := CoreLocation{}
	add := func(word string) {
		core := Core{CoreLocation: at}
		if unknown {
			core.CoreLocation = UnknownLocation
		}
		for cpu := range strings.SplitSeq(word, "+") {
			digits, shut := strings.CutPrefix(cpu, "!")
			number, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			core.addCPU(number, !shut)
		}
		node.Cores = append(node.Cores, core)
	}
	for word := range strings.FieldsSeq(text) {
		first, last, several := strings.Cut(word, "..")
		switch {
		case word == "|":
			at = CoreLocation{Package: at.Package + 1, NUMA: at.NUMA + 1, L3: at.L3 + 1}
		case word == "/":
			at.NUMA, at.L3 = at.NUMA+1, at.L3+1
		case several:
			low, _ := strconv.Atoi(first)
			high, _ := strconv.Atoi(last)
			for cpu := low; cpu <= high; cpu++ {
				add(strconv.Itoa(cpu))
			}
		default:
			add(word)
		}
	}
	slices.SortFunc(node.Cores, func(a, b Core) int { return cmp.Compare(a.lowestCPU(), b.lowestCPU()) })
	return node
}

func TestDescribe(t *testing.T) {
	text, err := os.ReadFile("../testdata/pin/picture.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, ":")
		if len(fields) != 3 {
			t.Fatalf("%q has not three fields", line)
		}
		cpus, err := ParseCPUs(strings.TrimSpace(fields[1]))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace(fields[2])
		if got := parsePicture(t, fields[0]).DescribeCPUs(cpus); got != want {
			t.Errorf("%s: %s", line, got)
		}
		cases++
	}
	if cases < 15 {
		t.Errorf("only %d cases", cases)
	}
}

// Different L3 caches separate cores, also inside one NUMA node.
func TestDrawCaches(t *testing.T) {
	var node Topology
	for cpu := range 6 {
		node.Cores = append(node.Cores, Core{CPUs: []int{cpu}, CoreLocation: CoreLocation{L3: cpu / 3}})
	}
	if got := node.DrawCores([]int{3}); got != "[.../B..]" {
		t.Errorf("got %s", got)
	}
}

func TestMemories(t *testing.T) {
	for text, want := range map[string]int{"0 1": 1, "0 / 1 | 2": 3, "? 0 1": 0} {
		if got := parsePicture(t, text).CountNUMANodes(); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
