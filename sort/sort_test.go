package sort

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// parseNodes parses "NAME:CPUS/PROCS/LOAD1/LOAD5/LOAD15"; a load of ? is unknown.
func parseNodes(text string) []job.Node {
	var all []job.Node
	for id, word := range strings.Fields(text) {
		name, rest, _ := strings.Cut(word, ":")
		n := job.Node{NodeDef: job.NodeDef{ID: id, Name: name}}
		for i, field := range strings.Split(rest, "/") {
			value, err := strconv.ParseFloat(field, 64)
			switch {
			case i == 0:
				n.Topology.Cores = make([]pin.Core, int(value))
				for cpu := range n.Topology.Cores {
					n.Topology.Cores[cpu].CPUs = []int{cpu}
				}
			case i == 1:
				n.Ranks = int(value)
			case err != nil:
				n.Load[i-2] = -1
			default:
				n.Load[i-2] = value
			}
		}
		all = append(all, n)
	}
	return all
}

func TestOrderEntries(t *testing.T) {
	const cluster = "c:4/1/0.5/1/3 b:4/1/0.5/3/1 a:8/1/0.5/2/2 d:2/0/1.5/?/0"
	tests := []struct {
		by      Mode
		entries []int
		want    string
	}{
		{None, []int{1, 0, 1}, "b c b"},
		{Proc, nil, "d a c b"},                 // then larger, then by ID
		{Proc, []int{1, 3, 0, 1}, "d c b b"},   // repeated entries become adjacent
		{"LOAD_1", nil, "a c b d"},             // equal loads
		{"LOAD_5", nil, "c a b d"},             // the unknown one last
		{"LOAD_15", nil, "d b a c"},            //
		{"PROC+LOAD", nil, "a c b d"},          // 1 + 0.5 is exactly 0 + 1.5
		{"SLOTS", nil, "d c b a"},              // fewer first
		{"-SLOTS", nil, "a c b d"},             //
		{"NAME", []int{0, 1, 2, 3}, "a b c d"}, //
	}
	all := parseNodes(cluster)
	for _, test := range tests {
		entries := test.entries
		if entries == nil {
			entries = []int{0, 1, 2, 3}
		}
		before := fmt.Sprint(entries)
		var names []string
		for _, i := range OrderEntries(all, entries, test.by) {
			names = append(names, all[i].Name)
		}
		if got := strings.Join(names, " "); got != test.want || fmt.Sprint(entries) != before {
			t.Errorf("%s of %v: %s; want %s", test.by, entries, got, test.want)
		}
	}
}

// Of nodes with equal numbers of processes those with less load come first, in whole numbers. Nodes
// without processes are equal, whatever their load.
func TestLoadBreaksTies(t *testing.T) {
	for _, test := range []struct{ about, cluster, want string }{
		{"less load first", "a:4/1/3.00 b:4/1/1.00 c:4/1/2.00", "b c a"},
		{"whole numbers", "a:4/1/1.49 b:4/1/0.50 c:4/1/1.50", "a b c"},
		{"load before size", "a:8/1/2.00 b:4/1/1.00", "b a"},
		{"size of equal loads", "a:4/1/1.20 b:8/1/0.80", "b a"},
		{"processes before load", "a:4/2/0.00 b:4/1/9.00", "b a"},
		{"an unknown load last", "a:4/1/? b:4/1/90.00", "b a"},
		{"no processes", "a:4/0/9.00 b:4/0/0.00", "a b"},
		{"no processes, and size", "a:4/0/0.00 b:8/0/?", "b a"},
	} {
		all := parseNodes(test.cluster)
		var names []string
		for _, i := range OrderEntries(all, []int{0, 1, 2}[:len(all)], Proc) {
			names = append(names, all[i].Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%s: %s; want %s", test.about, got, test.want)
		}
	}
	all := parseNodes("a:4/1/3/2/2 b:4/1/1/2/2")
	for _, by := range []Mode{"LOAD_5", "SLOTS", "NAME", None} {
		if got := fmt.Sprint(OrderEntries(all, []int{0, 1}, by)); got != "[0 1]" {
			t.Errorf("%s: %s; load breaks ties of PROC only", by, got)
		}
	}
}

// Names are compared naturally (n2 before n10), and a load is compared as its text says (4.3).
func TestKeys(t *testing.T) {
	all := parseNodes("n10:1 n9:1 n1:1")
	if got := fmt.Sprint(OrderEntries(all, []int{0, 1, 2}, "NAME")); got != "[2 1 0]" {
		t.Errorf("by name: %s", got)
	}
	for text, want := range map[string]int64{"0.29": 29, "0.57": 57, "1.13": 113, "1.15": 115, "0.00": 0, "1024.99": 102499} {
		value, _ := strconv.ParseFloat(text, 64)
		n := job.Node{Probe: job.Probe{Load: [3]float64{value}}}
		if got := readLoad(0)(&n).value; got != want {
			t.Errorf("load %s is %d hundredths; want %d", text, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, word := range KeyWords(false) {
		if _, err := Parse(strings.ToLower(word), false); err != nil {
			t.Errorf("%s: %v", word, err)
		}
	}
	for _, word := range []string{"", "CPU", "slots", "-slots", "name", "proc +load"} {
		if mode, err := Parse(word, false); err == nil {
			t.Errorf("%q is %s for a variable", word, mode)
		}
	}
	if mode, err := Parse("-Slots", true); err != nil || mode != "-SLOTS" {
		t.Errorf("-Slots after the flag: %s, %v", mode, err)
	}
}

func TestMeasuredValue(t *testing.T) {
	n := job.Node{Occupancy: job.Occupancy{Ranks: 2}, Probe: job.Probe{Load: [3]float64{0.5, 1.256, -1}}}
	for by, want := range map[Mode]string{Proc: "2", "LOAD_1": "0.50", "LOAD_5": "1.26", "LOAD_15": "unknown", "PROC+LOAD": "2.50", None: "", "NAME": "", "-SLOTS": ""} {
		if got := MeasuredValue(&n, by); got != want {
			t.Errorf("Value by %s: %q, want %q", by, got, want)
		}
	}
}

// The keys are the same as in the table of placement.md 4.1.
func TestKeysAreThoseOfTheirPage(t *testing.T) {
	page, err := os.ReadFile("../doc/spec/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### 4.1 Keys")
	text, _, _ = strings.Cut(text, "### 4.2")
	var written []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(line, "|")
		words := strings.Split(strings.NewReplacer("`", "", " ", "").Replace(cells[1]), ",")
		written = append(written, words...)
		for _, word := range words {
			if mode, err := Parse(word, false); string(mode) != strings.Trim(cells[2], " `") {
				t.Errorf("%s is %q, %v; the page says %s", word, mode, err, cells[2])
			}
		}
	}
	if known := KeyWords(false); !slices.Equal(written, known) {
		t.Errorf("the page has %q, the table %q", written, known)
	}
}
