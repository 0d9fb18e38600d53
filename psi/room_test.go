package psi

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"remshell/job"
	"remshell/pin"
)

// said reads flags of a cluster of one node.
func said(flags Flags) (Choice, error) {
	return Read(Input{Nodes: []job.NodeDef{{Name: "a"}}, Flags: flags, Env: func(string) (string, bool) { return "", false }})
}

func TestWhatRanksTakeOfANode(t *testing.T) {
	tests := []struct {
		Choosing
		want string // "shape confinement threads reserve memory", or the token that is refused
	}{
		{Choosing{Shape: new("4")}, "4 {0 0 [] false} 0 0 0"},
		{Choosing{PerNUMA: new("2"), NUMANodes: new("1"), StrictMem: new(true)}, "0 {2 1 [] true} 0 0 0"},
		{Choosing{NUMAList: new(" 2-3, 0 ")}, "0 {0 0 [0 2 3] false} 0 0 0"},
		{Choosing{NUMAList: new("1,1")}, "0 {0 0 [1] false} 0 0 0"},
		{Choosing{HWThreads: new("0")}, "0 {0 0 [] false} -1 0 0"},
		{Choosing{HWThreads: new("1")}, "0 {0 0 [] false} 0 0 0"},
		{Choosing{HWThreads: new("2"), ReserveCPUs: new("3")}, "0 {0 0 [] false} 2 3 0"},
		{Choosing{MemPerRank: new("3")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<20)},
		{Choosing{MemPerRank: new("3gb")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30)},
		{Choosing{MemPerRank: new(" 2T ")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 2<<40)},
		{Choosing{MemPerRank: new("3Gh")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30, "want")},
		{Choosing{MemPerRank: new("512HS")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 512<<20, "need")},
		{Choosing{MemPerRank: new("3gbhs")}, fmt.Sprint("0 {0 0 [] false} 0 0 ", 3<<30, "need")},
		{Choosing{Shape: new("0")}, "--shape 0"},
		{Choosing{Shape: new("65536")}, "--shape 65536"},
		{Choosing{PerNUMA: new("x")}, "--per-numa x"},
		{Choosing{NUMANodes: new("")}, "--numa-nodes "},
		{Choosing{NUMAList: new("2-1")}, "--numa-list 2-1"},
		{Choosing{NUMAList: new("1,")}, "--numa-list 1,"},
		{Choosing{NUMAList: new("0-70000")}, "--numa-list 0-70000"},
		{Choosing{NUMAList: new("1 2")}, "--numa-list 1 2"},
		{Choosing{NUMAList: new("1"), NUMANodes: new("1")}, "--numa-list 1"},
		{Choosing{HWThreads: new("-1")}, "--hw-threads -1"},
		{Choosing{ReserveCPUs: new("1.5")}, "--reserve-cpus 1.5"},
		{Choosing{MemPerRank: new("0")}, "--mem-per-rank 0"},
		{Choosing{MemPerRank: new("3X")}, "--mem-per-rank 3X"},
		{Choosing{MemPerRank: new("GB")}, "--mem-per-rank GB"},
		{Choosing{MemPerRank: new("3KK")}, "--mem-per-rank 3KK"},
		{Choosing{MemPerRank: new("9999999999T")}, "--mem-per-rank 9999999999T"},
		{Choosing{MemPerRank: new("+3")}, "--mem-per-rank +3"},
		{Choosing{MemPerRank: new("hs")}, "--mem-per-rank hs"},
		{Choosing{MemPerRank: new("3s")}, "--mem-per-rank 3s"},
		{Choosing{MemPerRank: new("3hhs")}, "--mem-per-rank 3hhs"},
		{Choosing{MemPerRank: new("3hsM")}, "--mem-per-rank 3hsM"},
	}
	for _, test := range tests {
		c, err := said(Flags{Choosing: test.Choosing})
		got := fmt.Sprint(c.Shape, c.NUMA, c.HWThreads, c.Reserve, c.Memory) + string(c.Huge)
		var refused *Error
		if errors.As(err, &refused) {
			got = refused.Source + " " + refused.Token
		}
		if got != test.want {
			t.Errorf("%q; want %q", got, test.want)
		}
	}
}

// -ppn is an upper bound, and a shape exact.
func TestAShapeAbovePPN(t *testing.T) {
	var refused *Error
	if _, err := said(Flags{PPN: new("2"), Choosing: Choosing{Shape: new("4")}}); !errors.As(err, &refused) || refused.Code != "bad-value" {
		t.Errorf("%v", err)
	}
	if _, err := said(Flags{PPN: new("4"), Choosing: Choosing{Shape: new("4")}}); err != nil {
		t.Error(err)
	}
}

func TestClash(t *testing.T) {
	strict := job.Share{NUMA: pin.Confinement{Strict: true}}
	byNUMA, byNode := pin.Layout{Map: pin.Mapping{Text: "ppr:2:numa", Level: pin.ByNUMA, Each: 2}}, pin.Layout{Map: pin.Mapping{Text: "node", Level: pin.ByNode}}
	for _, test := range []struct {
		name   string
		shares []job.Share
		layout pin.Layout
		spots  bool
		fine   bool
	}{
		{"nothing said", []job.Share{{}, {}}, byNUMA, true, true},
		{"by node", []job.Share{strict}, byNode, false, true},
		{"by NUMA nodes", []job.Share{strict}, byNUMA, false, false},
		{"a rank file", []job.Share{{}, strict}, pin.Layout{}, true, false},
		{"the same threads", []job.Share{{HWThreads: 2}, {HWThreads: 2}}, pin.Layout{}, false, true},
		{"other threads", []job.Share{{HWThreads: 2}, {}}, pin.Layout{}, false, false},
	} {
		if err := Clash(test.shares, test.layout, test.spots); (err == nil) != test.fine {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// Whatever is written, what is accepted is within its bounds.
func FuzzWhatRanksTakeOfANode(f *testing.F) {
	for _, text := range []string{"4", "0,2-3", "2-1", "3GB", "3Ghs", "3X", "65536", "-1", "", "0-65535,7", "9223372036854775807T"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, choosing := range []Choosing{{Shape: &text}, {PerNUMA: &text}, {NUMANodes: &text}, {NUMAList: &text}, {HWThreads: &text}, {ReserveCPUs: &text}, {MemPerRank: &text}} {
			c, err := said(Flags{Choosing: choosing})
			var refused *Error
			if err != nil && (!errors.As(err, &refused) || refused.Code != "bad-value" || len(refused.Allowed) == 0) {
				t.Fatalf("%q: %v", text, err)
			}
			for _, n := range append([]int{c.Shape, c.NUMA.Each, c.NUMA.Lowest, max(0, c.HWThreads), c.Reserve}, c.NUMA.List...) {
				if n < 0 || n > maxCount {
					t.Fatalf("%q: %d", text, n)
				}
			}
			if c.Huge != "" && (c.Memory == 0 || c.Huge != job.HugeWanted && c.Huge != job.HugeNeeded) {
				t.Fatalf("%q: huge pages %q for %d bytes", text, c.Huge, c.Memory)
			}
			if c.Memory < 0 || c.Memory > maxMemory || !slices.IsSorted(c.NUMA.List) {
				t.Fatalf("%q: %d bytes, NUMA nodes %v", text, c.Memory, c.NUMA.List)
			}
		}
	})
}
