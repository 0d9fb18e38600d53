package psi

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// readFlags reads flags on a cluster of one node.
func readFlags(flags Flags) (Settings, error) {
	return Read(Input{Nodes: []job.NodeDef{{Name: "a"}}, Flags: flags, Env: func(string) (string, bool) { return "", false }})
}

func TestWhatRanksTakeOfANode(t *testing.T) {
	tests := []struct {
		SelectionFlags
		want string // "shape confinement threads reserve memory", or the token that is refused
	}{
		{SelectionFlags{Shape: new("4")}, "4 {0 0 [] false} 0 0 0"},
		{SelectionFlags{PerNUMA: new("2"), NUMANodes: new("1"), StrictMem: new(true)}, "0 {2 1 [] true} 0 0 0"},
		{SelectionFlags{NUMAList: new(" 2-3, 0 ")}, "0 {0 0 [0 2 3] false} 0 0 0"},
		{SelectionFlags{NUMAList: new("1,1")}, "0 {0 0 [1] false} 0 0 0"},
		{SelectionFlags{HWThreads: new("0")}, "0 {0 0 [] false} -1 0 0"},
		{SelectionFlags{HWThreads: new("1")}, "0 {0 0 [] false} 0 0 0"},
		{SelectionFlags{HWThreads: new("2"), ReserveCPUs: new("3")}, "0 {0 0 [] false} 2 3 0"},
		{SelectionFlags{MemPerRank: new("3")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<20)},
		{SelectionFlags{MemPerRank: new("3gb")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30)},
		{SelectionFlags{MemPerRank: new(" 2T ")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 2<<40)},
		{SelectionFlags{MemPerRank: new("3Gh")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30, "want")},
		{SelectionFlags{MemPerRank: new("512HS")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 512<<20, "need")},
		{SelectionFlags{MemPerRank: new("3gbhs")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30, "need")},
		{SelectionFlags{Shape: new("0")}, "--shape 0"},
		{SelectionFlags{Shape: new("65536")}, "--shape 65536"},
		{SelectionFlags{PerNUMA: new("x")}, "--per-numa x"},
		{SelectionFlags{NUMANodes: new("")}, "--numa-nodes "},
		{SelectionFlags{NUMAList: new("2-1")}, "--numa-list 2-1"},
		{SelectionFlags{NUMAList: new("1,")}, "--numa-list 1,"},
		{SelectionFlags{NUMAList: new("0-70000")}, "--numa-list 0-70000"},
		{SelectionFlags{NUMAList: new("1 2")}, "--numa-list 1 2"},
		{SelectionFlags{NUMAList: new("1"), NUMANodes: new("1")}, "--numa-list 1"},
		{SelectionFlags{HWThreads: new("-1")}, "--hw-threads -1"},
		{SelectionFlags{ReserveCPUs: new("1.5")}, "--reserve-cpus 1.5"},
		{SelectionFlags{MemPerRank: new("0")}, "--mem-per-rank 0"},
		{SelectionFlags{MemPerRank: new("3X")}, "--mem-per-rank 3X"},
		{SelectionFlags{MemPerRank: new("GB")}, "--mem-per-rank GB"},
		{SelectionFlags{MemPerRank: new("3KK")}, "--mem-per-rank 3KK"},
		{SelectionFlags{MemPerRank: new("9999999999T")}, "--mem-per-rank 9999999999T"},
		{SelectionFlags{MemPerRank: new("+3")}, "--mem-per-rank +3"},
		{SelectionFlags{MemPerRank: new("hs")}, "--mem-per-rank hs"},
		{SelectionFlags{MemPerRank: new("3s")}, "--mem-per-rank 3s"},
		{SelectionFlags{MemPerRank: new("3hhs")}, "--mem-per-rank 3hhs"},
		{SelectionFlags{MemPerRank: new("3hsM")}, "--mem-per-rank 3hsM"},
	}
	for _, test := range tests {
		c, err := readFlags(Flags{SelectionFlags: test.SelectionFlags})
		got := fmt.Sprint(c.ExactPerNode, c.NUMA, c.HWThreads, c.Reserve, c.Memory) + string(c.HugePages)
		var refused *Error
		if errors.As(err, &refused) {
			got = refused.Source + " " + refused.Token
		}
		if got != test.want {
			t.Errorf("%q; want %q", got, test.want)
		}
	}
}

// A shape must not exceed -ppn.
func TestAShapeAbovePPN(t *testing.T) {
	var refused *Error
	if _, err := readFlags(Flags{PPN: new("2"), SelectionFlags: SelectionFlags{Shape: new("4")}}); !errors.As(err, &refused) || refused.Code != "bad-value" {
		t.Errorf("%v", err)
	}
	if _, err := readFlags(Flags{PPN: new("4"), SelectionFlags: SelectionFlags{Shape: new("4")}}); err != nil {
		t.Error(err)
	}
}

func TestCheckConflicts(t *testing.T) {
	strict := job.RankNeeds{NUMA: pin.Confinement{StrictMemory: true}}
	byNUMA, byNode := pin.Layout{Map: pin.Mapping{Text: "ppr:2:numa", Level: pin.ByNUMA, PerObject: 2}}, pin.Layout{Map: pin.Mapping{Text: "node", Level: pin.ByNode}}
	for _, test := range []struct {
		name   string
		shares []job.RankNeeds
		layout pin.Layout
		fixed  bool
		fine   bool
	}{
		{"nothing given", []job.RankNeeds{{}, {}}, byNUMA, true, true},
		{"by node", []job.RankNeeds{strict}, byNode, false, true},
		{"by NUMA nodes", []job.RankNeeds{strict}, byNUMA, false, false},
		{"a rank file", []job.RankNeeds{{}, strict}, pin.Layout{}, true, false},
		{"the same threads", []job.RankNeeds{{HWThreads: 2}, {HWThreads: 2}}, pin.Layout{}, false, true},
		{"other threads", []job.RankNeeds{{HWThreads: 2}, {}}, pin.Layout{}, false, false},
	} {
		if err := CheckConflicts(test.shares, test.layout, test.fixed); (err == nil) != test.fine {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// Each accepted value is within its bounds.
func FuzzWhatRanksTakeOfANode(f *testing.F) {
	for _, text := range []string{"4", "0,2-3", "2-1", "3GB", "3Ghs", "3X", "65536", "-1", "", "0-65535,7", "9223372036854775807T"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, choosing := range []SelectionFlags{{Shape: &text}, {PerNUMA: &text}, {NUMANodes: &text}, {NUMAList: &text}, {HWThreads: &text}, {ReserveCPUs: &text}, {MemPerRank: &text}} {
			c, err := readFlags(Flags{SelectionFlags: choosing})
			var refused *Error
			if err != nil && (!errors.As(err, &refused) || refused.Code != "bad-value" || len(refused.Allowed) == 0) {
				t.Fatalf("%q: %v", text, err)
			}
			for _, n := range append([]int{c.ExactPerNode, c.NUMA.PerNUMA, c.NUMA.FirstNodes, max(0, c.HWThreads), c.Reserve}, c.NUMA.NUMANodes...) {
				if n < 0 || n > maxCount {
					t.Fatalf("%q: %d", text, n)
				}
			}
			if c.HugePages != "" && (c.Memory == 0 || c.HugePages != job.HugePagesPreferred && c.HugePages != job.HugePagesRequired) {
				t.Fatalf("%q: huge pages %q for %d bytes", text, c.HugePages, c.Memory)
			}
			if c.Memory < 0 || c.Memory > maxMemory || !slices.IsSorted(c.NUMA.NUMANodes) {
				t.Fatalf("%q: %d bytes, NUMA nodes %v", text, c.Memory, c.NUMA.NUMANodes)
			}
		}
	})
}
