package pin

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// policyText formats a policy without its zero fields.
func policyText(policy any) string {
	var said []string
	value := reflect.Indirect(reflect.ValueOf(policy))
	for _, f := range reflect.VisibleFields(value.Type()) {
		if v := value.FieldByIndex(f.Index); !f.Anonymous && f.Name != "Text" && f.Name != "Policy" && !v.IsZero() {
			said = append(said, fmt.Sprint(f.Name, ":", v))
		}
	}
	return strings.Join(said, " ")
}

func TestPolicies(t *testing.T) {
	const objects = "slot, node, machine, socket, package, numa, l3cache, l2cache, l1cache, core, hwthread"
	policies := strings.Join(Mapping{}.Choices(), ", ")
	tests := []struct {
		into       encoding.TextUnmarshaler
		text, want string
	}{
		{&Mapping{}, "slot", ""},
		{&Mapping{}, "NODE", "Level:node"},
		{&Mapping{}, "machine", "Level:node"},
		{&Mapping{}, "socket", "Level:package"},
		{&Mapping{}, "package", "Level:package"},
		{&Mapping{}, "so", "Level:package"},
		{&Mapping{}, "nu", "Level:numa"},
		{&Mapping{}, "L3", "Level:l3cache"},
		{&Mapping{}, "l1cache", "Level:core"},
		{&Mapping{}, "core:2", "Level:core Count:2"},
		{&Mapping{}, "socket:pe=4:span:oversub", "Level:package Span:true Width:4 Oversubscribe:true"},
		{&Mapping{}, ":nooversubscribe:nolocal", "NoOversubscribe:true NoLocal:true"},
		{&Mapping{}, "core:corecpus", "Level:core NoThread:true"},
		{&Mapping{}, "hwthread", "Level:hwthread Threads:true"},
		{&Mapping{}, "ppr:2:socket:pe=3", "Level:package PerObject:2 Width:3"},
		{&Mapping{}, "ppr:2:N", "Level:node PerObject:2"},
		{&Mapping{}, "ppr:2:n:pe=3", "Level:node PerObject:2 Width:3"},
		{&Mapping{}, "seq", "Seq:true"},
		{&Mapping{}, "seq:file=Hosts", "Seq:true File:Hosts"},
		{&Mapping{}, "rankfile:file=a:b=c", "File:a:b=c"},
		{&Mapping{}, "pe-list=0:*,p4:ordered", "PEList:[0:* p4-4] PEListOrdered:true"},
		{&Mapping{}, "pe-list=4:ordered", "PEList:[4-4] PEListOrdered:true"},
		{&Mapping{}, "l", `"l" may be l3cache or l2cache or l1cache`},
		{&Mapping{}, "bogus", `"bogus" is not one of ` + policies},
		{&Mapping{}, "", `"" is not one of ` + policies},
		{&Mapping{}, "core:bogus", `"bogus" is not one of pe=N, span, oversubscribe, nooversubscribe, nolocal, hwtcpus, corecpus`},
		{&Mapping{}, "core:0", `"0" is not one of pe=N, span, oversubscribe, nooversubscribe, nolocal, hwtcpus, corecpus`},
		{&Mapping{}, "core:pe=0", `pe: "0" is not a number of CPUs`},
		{&Mapping{}, "core:pe", "pe needs a number of CPUs, such as pe=2"},
		{&Mapping{}, "slot:2", "no number may follow slot; to give each rank several CPUs, write slot:pe=N"},
		{&Mapping{}, "node:over:noover", `"node:over:noover" contradicts itself`},
		{&Mapping{}, "ppr:x:node", `ppr: "x" is not a number of ranks; write ppr:N:OBJECT`},
		{&Mapping{}, "ppr:2", `ppr: "" is not one of ` + objects},
		{&Mapping{}, "ppr:2:slot", "ppr: the object must be node, socket, numa, l3cache, l2cache, core or hwthread"},
		{&Mapping{}, "ppr:2:core:2", "ppr: no number may follow the object core"},
		{&Mapping{}, "seq:x=y", `"seq:x=y": write seq:file=FILE`},
		{&Mapping{}, "rankfile", `"rankfile": write rankfile:file=FILE`},
		{&Mapping{}, "socket=2", `"socket=2" is not one of ` + policies},
		{&Mapping{}, "pe=2", `"pe=2" is not one of ` + policies},
		{&Mapping{}, "p", "Level:package"}, // also the beginning of ppr and pe-list
		{&Mapping{}, "s", `"s" may be slot or socket or seq`},

		{&Memory{}, "none", "Mode:none"},
		{&Memory{}, "FirstTouch", "Mode:local"},
		{&Memory{}, "inter", "Mode:interleave"},
		{&Memory{}, "bind:3,0-1,1", "Nodes:[0 1 3]"},
		{&Memory{}, "bind", `"" is not a list of NUMA nodes such as 0-1,3`},
		{&Memory{}, "b", `"b": write bind:LIST`},
		{&Memory{}, "x", `"x" is not one of none, local, firsttouch, interleave, bind:LIST`},

		{&Ranking{}, "slot", "Order:slot"},
		{&Ranking{}, "machine", "Order:node Level:node"},
		{&Ranking{}, "fill", "Order:fill"},
		{&Ranking{}, "sp", "Order:span"},
		{&Ranking{}, "socket", "Order:object Level:package"},
		{&Ranking{}, "s", `"s" may be span or slot or socket`},
		{&Ranking{}, "x", `"x" is not one of fill, span, ` + objects},

		{&Binding{}, "none", "None:true"},
		{&Binding{}, "Core", "Level:core"},
		{&Binding{}, "board", "Level:node"},
		{&Binding{}, "core:2", "Level:core Width:2"},
		{&Binding{}, "numa:2:overload-allowed", "Level:numa Count:2 Overload:true"},
		{&Binding{}, "l3:if:rep", "Level:l3cache IfSupported:true Report:true"},
		{&Binding{}, "none:report", "None:true Report:true"},
		{&Binding{}, "user:0+2,1+4,3-5", "Sets:[[0 2] [1 4] [3 4 5]]"},
		{&Binding{}, "user:2,none,0", "Sets:[[2] [] [0]]"},
		{&Binding{}, "rr", "RoundRobin:true"},
		{&Binding{}, "bogus", `"bogus" is not one of none, hwthread, core, l1cache, l2cache, l3cache, numa, socket, package, machine, board, user:SET, cpu-list=LIST, rr`},
		{&Binding{}, "core:x", `"x" is not one of overload-allowed, if-supported, report`},
		{&Binding{}, "none:overload", `"none:overload" contradicts itself`},
		{&Binding{}, "user:", `"" is not a set of CPUs such as 0+2 or 4-7`},
		{&Binding{}, "user:1,,2", `"" is not a set of CPUs such as 0+2 or 4-7`},
		{&Binding{}, "user:2-1", `"2-1" is not a set of CPUs such as 0+2 or 4-7`},
		{&Binding{}, "us", `"us": write user:SET`},
		{&Binding{}, "cpu-list=", "a CPU is missing"},
	}
	for _, test := range tests {
		err := test.into.UnmarshalText([]byte(test.text))
		got := policyText(test.into)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%T %q: %s; want %s", test.into, test.text, got, test.want)
		}
	}
}

func FuzzPolicies(f *testing.F) {
	for _, seed := range []string{"socket:pe=2:span", "ppr:2:l3:oversubscribe", "seq:file=x", "rankfile:file=", "pe-list=0-3:ordered",
		"numa:2:overload-allowed", "user:0+2,1-3", "cpu-list=p4", "fill", "rr", ":", "seq:"} {
		f.Add(seed)
	}
	t := twoPackages()
	slots := t.ListUnits(false)
	free := FreeSlots(slots, nil)
	f.Fuzz(func(fail *testing.T, text string) {
		var l Layout
		for _, policy := range []encoding.TextUnmarshaler{&l.Map, &l.Rank, &l.Bind} {
			if err := policy.UnmarshalText([]byte(text)); err != nil && err.Error() == "" {
				fail.Fatal("an error without a word")
			}
		}
		if t.CheckLayout(slots, nil, l, false) != nil {
			return
		}
		pool, extent := NewPool(t, slots, free, l, 1, false), NewBinder(t, slots, free, l, false)
		for k := range 20 {
			take, ok := pool.TakeSlots(1, 1)
			if !ok {
				take = pool.ShareSlots(1)
			}
			for _, cpu := range extent.Bind(k, take.Slots).CPUs {
				if cpu == 7 || cpu == 12 || cpu == 15 {
					fail.Fatalf("%q: CPU %d", text, cpu)
				}
			}
		}
	})
}

// Ranks are not bound to a listed CPU that is reserved. Before, the first CPU of the host took its place.
func TestListWithReservedCPUs(t *testing.T) {
	top := twoPackages()
	slots := slices.DeleteFunc(top.ListUnits(false), func(u Unit) bool { return u.CPUs[0] == 2 }) // core 1 in lists
	layout := func(text string) (l Layout) {
		if err := l.Map.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := top.CheckLayout(slots, nil, layout("pe-list=1"), false); err == nil || !strings.Contains(err.Error(), "may use none of the listed CPUs; they may use 0-1,3-6,") {
		t.Errorf("only the reserved core: %v", err)
	}
	l := layout("pe-list=1,3:ordered")
	if err := top.CheckLayout(slots, nil, l, false); err != nil {
		t.Fatal(err)
	}
	pool := NewPool(top, slots, FreeSlots(slots, nil), l, 1, false)
	if take, ok := pool.TakeSlots(1, 1); !ok || slots[take.Slots[0]].CPUs[0] != 6 {
		t.Errorf("the first rank gets %+v, want the core with CPU 6", take)
	}
	if take, ok := pool.TakeSlots(1, 1); ok {
		t.Errorf("the second rank gets %+v", take)
	}
}
