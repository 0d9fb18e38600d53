package pin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// twoPackages has two packages of four cores with two threads each. The kernel numbers CPUs of both
// packages in turn, as on many machines. Core 3 of package 1 and one thread of core 2 of package 0 are not
// usable.
func twoPackages() Topology {
	var t Topology
	for core := range 8 {
		c := Core{CPUs: []int{core, core + 8}, CoreLocation: CoreLocation{NUMA: core % 2, Package: core % 2}}
		switch core {
		case 7:
			c.CPUs, c.Unusable = nil, c.CPUs
		case 4:
			c.CPUs, c.Unusable = []int{4}, []int{12}
		}
		t.Cores = append(t.Cores, c)
	}
	return t
}

func TestParseCPURanges(t *testing.T) {
	tests := []struct{ list, cores, threads string }{
		{"0", "0,8", "0"},
		{"1", "2,10", "8"},
		{"4", "1,9", "4"},
		{"5", "3,11", "error: ranks on the host may not use slot 5; they may use the CPUs 0-6,8-11,13-14"},
		{"0-1,3", "0,8,2,10,6,14", "0,8,10"},
		{"0:1", "2,10", "2,10"},
		{"0:1,2;0", "2,10,4,0,8", "2,10,4,0"},
		{"1:*", "1,9,3,11,5,13", "1,9,3,11,5,13"},
		{"1:0-2", "1,9,3,11,5,13", "1,9,3,11,5,13"},
		{"p9", "9", "9"},
		{"p0-1,4", "0,1,4", "0,1,4"},
		{"p0;0", "0,8", "0"},
		{"*", "0,8,2,10,4,6,14,1,9,3,11,5,13", ""},
		{" 0 , 1 ", "0,8,2,10", ""},
		{"7", "error: ranks on the host may not use slot 7; they may use the CPUs 0-6,8-11,13-14", ""},
		{"1:3", "error: ranks on the host may not use core 1:3; they may use the CPUs 0-6,8-11,13-14", ""},
		{"p12", "error: ranks on the host may not use CPU 12; they may use the CPUs 0-6,8-11,13-14", ""},
		{"8", "error: the host has no slot 8; it has 0-7", ""},
		{"6-9", "error: ranks on the host may not use slot 7; they may use the CPUs 0-6,8-11,13-14", ""},
		{"1:4", "error: the host has no core 1:4; it has 0-3", ""},
		{"2:0", "error: the host has no package (CPU socket) with the number 2; it has 0-1", ""},
		{"p16", "error: the host has no CPU 16; it has 0-15", ""},
	}
	for _, test := range tests {
		ranges, err := ParseCPURanges(test.list)
		if err != nil {
			t.Errorf("%q: %v", test.list, err)
		}
		for threads, want := range map[bool]string{false: test.cores, true: test.threads} {
			if want == "" {
				continue
			}
			cpus, err := twoPackages().Numbering(threads).CPUs(ranges)
			got := strings.ReplaceAll(strings.Trim(fmt.Sprint(cpus), "[]"), " ", ",")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != want {
				t.Errorf("%q, threads %v: %s; want %s", test.list, threads, got, want)
			}
		}
	}
}

func TestBadCPURanges(t *testing.T) {
	for list, want := range map[string]string{
		"": "0-0", "0,": "2-2", "0,x": "2-3", "3-1": "0-3", "1:": "0-2", ":1": "0-2", "1:2:3": "0-5", "p": "0-1", "+1": "0-2", "-1": "0-2",
		"0; 1x": "2-5", "99999999": "0-8", "1:p2": "0-4", "0-": "0-2", "**": "0-2",
	} {
		ranges, err := ParseCPURanges(list)
		span, is := err.(*SpanError)
		if !is || fmt.Sprintf("%d-%d", span.From, span.To) != want || span.Reason == "" {
			t.Errorf("%q: %v, %+v; want a fault at %s", list, ranges, err, want)
		}
	}
}

func FuzzParsePicks(f *testing.F) {
	for _, seed := range []string{"0-3,6", "0:0-3,1:0", "1:*", "p4;p6", "*", "1:2:3", "p"} {
		f.Add(seed)
	}
	machine := twoPackages().Numbering(false)
	f.Fuzz(func(t *testing.T, list string) {
		ranges, err := ParseCPURanges(list)
		if span, is := err.(*SpanError); err != nil && (!is || span.From < 0 || span.To < span.From || span.To > len(list)) {
			t.Fatalf("%q: %#v", list, err)
		}
		var words []string
		for _, p := range ranges {
			words = append(words, p.String())
		}
		again, err2 := ParseCPURanges(strings.Join(words, ";"))
		if err == nil && (err2 != nil || !slices.Equal(ranges, again)) {
			t.Fatalf("%q is %v, written again %v, %v", list, ranges, again, err2)
		}
		cpus, _ := machine.CPUs(ranges)
		if slices.Sort(cpus); len(slices.Compact(cpus)) != len(cpus) || slices.Contains(cpus, 12) || slices.Contains(cpus, 7) {
			t.Fatalf("%q: CPUs %v", list, cpus)
		}
	})
}
