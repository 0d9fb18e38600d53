package wire_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"remshell/gpu"
	"remshell/job"
	"remshell/job/column"
	"remshell/pin"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// Each limit of TRUST-7 is accepted, and one more is refused.
func TestBounds(t *testing.T) {
	core := func(n int) wire.Message { return probe(func(p *job.Probe) { p.Topology.Cores[0].CPUs[0] = n }) }
	place := func(set func(p *pin.CoreLocation, n int)) func(int) wire.Message {
		return func(n int) wire.Message {
			return probe(func(p *job.Probe) { set(&p.Topology.Cores[0].CoreLocation, n) })
		}
	}
	load := func(x float64) wire.Message { return probe(func(p *job.Probe) { p.Load[1] = x }) }
	memory := func(n int) wire.Message { return probe(func(p *job.Probe) { p.Memory.Total = int64(n) }) }
	huge := func(size, pages int64) wire.Message {
		return probe(func(p *job.Probe) {
			p.Memory.HugePages = job.HugePages{Probed: true, Size: size, Total: pages, Free: pages}
		})
	}
	card := func(set func(g *gpu.GPU)) wire.Message {
		return probe(func(p *job.Probe) {
			p.GPUs = []gpu.GPU{{Vendor: gpu.AMD, NUMA: -1}}
			set(&p.GPUs[0])
		})
	}
	exit := func(code, signal int) wire.Message { return &wire.Exited{job.Exit{Code: code, Signal: signal}} }
	use := func(u job.Occupancy) wire.Message { return &wire.Surveyed{Occupancy: u} }
	traits := func(t job.Attributes) wire.Message { return &wire.Surveyed{Attributes: t} }
	at := func(messages ...wire.Message) []wire.Message { return messages }
	tests := []struct {
		good, bad []wire.Message
		want      string // in each of bad
	}{
		{at(core(0), core(65535)), at(core(-1), core(65536), core(1<<40)), "CPU "},
		{at(probe(func(p *job.Probe) { p.Topology.Cores[0].Unusable = []int{8} })),
			at(probe(func(p *job.Probe) { p.Topology.Cores[0].Unusable = []int{7} }), probe(func(p *job.Probe) {
				p.Topology.Cores = append(p.Topology.Cores, p.Topology.Cores[0])
			})), "CPU 7 twice"},
		{at(place(func(p *pin.CoreLocation, n int) { p.NUMA = n })(-1), place(func(p *pin.CoreLocation, n int) { p.NUMA = n })(65535)),
			at(place(func(p *pin.CoreLocation, n int) { p.NUMA = n })(-2), place(func(p *pin.CoreLocation, n int) { p.NUMA = n })(65536)), "NUMA node "},
		{at(place(func(p *pin.CoreLocation, n int) { p.Package = n })(-1), place(func(p *pin.CoreLocation, n int) { p.Package = n })(65535)),
			at(place(func(p *pin.CoreLocation, n int) { p.Package = n })(-2), place(func(p *pin.CoreLocation, n int) { p.Package = n })(65536)), "package "},
		{at(place(func(p *pin.CoreLocation, n int) { p.L3, p.L2 = n, n })(-1), place(func(p *pin.CoreLocation, n int) { p.L3, p.L2 = n, n })(65535)),
			at(place(func(p *pin.CoreLocation, n int) { p.L3 = n })(-2), place(func(p *pin.CoreLocation, n int) { p.L2 = n })(65536)), "cache "},
		{at(load(-1), load(0), load(1e6)), at(load(math.NaN()), load(math.Inf(1)), load(-1.1), load(1e6+1)), "load "},
		{at(memory(0), memory(1<<60)), at(memory(-1), memory(1<<60+1)), "bytes "},
		{at(huge(1<<60, 1<<60)), at(huge(-1, 0), huge(0, -1), huge(1<<60+1, 0), huge(0, 1<<60+1)), " with an impossible value: "},
		{at(card(func(g *gpu.GPU) { g.Index = 255 }), card(func(g *gpu.GPU) { g.Address = strings.Repeat("a", 64) })),
			at(card(func(g *gpu.GPU) { g.Index = 256 }), card(func(g *gpu.GPU) { g.Index = -1 })), "GPU "},
		{nil, at(card(func(g *gpu.GPU) { g.Address = strings.Repeat("a", 65) })), "address of 65 bytes"},
		{at(gpus(256)), at(gpus(257)), "257 GPUs"},
		{at(cores(wire.MaxCores)), at(cores(wire.MaxCores + 1)), "16385 cores"},
		{at(use(job.Occupancy{Ranks: 1e6, BoundRanks: 1e6, BusyCPUs: []int{65535, 3}})),
			at(use(job.Occupancy{Ranks: 1e6 + 1}), use(job.Occupancy{BoundRanks: -1})), "count "},
		{nil, at(use(job.Occupancy{BusyCPUs: []int{4, 3, 4}})), "CPU 4 twice"},
		{at(traits(job.Attributes{Speed: 1e6, SpeedQuality: job.SpeedTurbo, NetSpeed: 1e8})), at(traits(job.Attributes{Speed: 1e6 + 1, SpeedQuality: job.SpeedTurbo}), traits(job.Attributes{Speed: -1})), "MHz "},
		{nil, at(traits(job.Attributes{NetSpeed: 1e8 + 1}), traits(job.Attributes{NetSpeed: -1})), "Mb/s "},
		{nil, at(traits(job.Attributes{Networks: make([]string, job.MaxLabels+1)})), "65 networks"},
		{nil, at(traits(job.Attributes{GPUModels: make([]string, job.MaxLabels+1)})), "65 models"},
		{at(traits(job.Attributes{CPUModel: strings.Repeat("a", 64)})), at(traits(job.Attributes{CPUModel: strings.Repeat("a", 65)})), "label of 65 bytes"},
		{at(traits(job.Attributes{Networks: []string{"ib-hdr"}})), at(traits(job.Attributes{Networks: []string{"\x1b[2J"}}), traits(job.Attributes{Networks: []string{"a*"}}),
			traits(job.Attributes{GPUModels: []string{""}}), traits(job.Attributes{CPUModel: "A"}), traits(job.Attributes{Speed: 1}), traits(job.Attributes{SpeedQuality: job.SpeedTurbo}),
			traits(job.Attributes{Speed: 1, SpeedQuality: job.SpeedGiven})), "a host attribute has a value that no host can have"},
		{at(exit(0, 0), exit(255, 0), exit(0, 64)), at(exit(256, 0), exit(-1, 0), exit(1<<32, 0), exit(3, 9)), "code "},
		{nil, at(exit(0, 65), exit(0, -1)), "signal "},
		{at(&wire.Exited{job.Exit{Usage: job.Usage{Wall: wire.MaxTime}}}), at(&wire.Exited{job.Exit{Usage: job.Usage{Wall: wire.MaxTime + 1}}}, &wire.Exited{job.Exit{Usage: job.Usage{User: -1}}}), "time "},
		{at(&wire.Exited{job.Exit{StdinRead: -1}}, &wire.Exited{job.Exit{StdinRead: 1 << 60}}), at(&wire.Exited{job.Exit{StdinRead: -2}}, &wire.Exited{job.Exit{StdinRead: 1<<60 + 1}}), "input "},
		{at(&wire.Exited{job.Exit{Usage: job.Usage{InBlocks: 1 << 60}}}), at(&wire.Exited{job.Exit{Usage: job.Usage{InBlocks: 1<<60 + 1}}}, &wire.Exited{job.Exit{Usage: job.Usage{OutBlocks: -1}}}), "blocks "},
		{at(&wire.PMIReport{Event: wire.PMIAborted, Code: 255, Rank: -1}), at(&wire.PMIReport{Event: wire.PMIAborted, Code: 256}, &wire.PMIReport{Event: wire.PMIMalformed, Code: -1}), "code "},
		{nil, at(&wire.PMIReport{Event: 0}, &wire.PMIReport{Event: wire.PMIxWaits + 1}), "event "},
		{at(&wire.Started{PID: 1}, &wire.Started{Err: "no"}, &wire.Started{PID: 1 << 22}), at(&wire.Started{}, &wire.Started{PID: -5}, &wire.Started{PID: 1<<22 + 1}), "pid "},
		{at(&wire.Refused{Code: 0}, &wire.Refused{Code: 255}), at(&wire.Refused{Code: -1}, &wire.Refused{Code: 256}), "code "},
		{at(&wire.Data{Bytes: make([]byte, wire.Window)}), at(&wire.Data{Bytes: make([]byte, wire.Window+1)}), "65537 bytes"},
		{at(&wire.Data{Stream: wire.Stderr}), at(&wire.Data{Stream: 3}, &wire.Credit{Stream: -1}), "stream "},
		{at(&wire.ProbePortOpened{Port: 65535}), at(&wire.ProbePortOpened{Port: 65536}, &wire.ProbePortOpened{Port: -1}), "port "},
		{at(&wire.LedgerListed{Claims: make([]job.Claim, 4000), Tickets: make([]job.Ticket, 96)}),
			at(&wire.LedgerListed{Claims: make([]job.Claim, 4000), Tickets: make([]job.Ticket, 97)}), "97 tickets"},
		{nil, at(&wire.LedgerListed{Claims: []job.Claim{{CPUsPerRank: -1}}}, &wire.LedgerListed{Claims: []job.Claim{{ExactPerNode: -1}}}, &wire.LedgerListed{Tickets: []job.Ticket{{ExactPerNode: -1}}}), "size -1"},
		{at(prepare(2, 0, 1)), at(prepare(2, 2, 0)), "rank 2 of 2"},
		{nil, at(prepare(2, 0, 2)), "app context 2"},
		{nil, at(&wire.Prepare{Apps: []job.App{{}}}), "app context 0 has no program"},
	}
	for _, test := range tests {
		for _, m := range test.good {
			if _, err, _ := wiretest.Receive(wire.Encode(m), wiretest.AnySide); err != nil {
				t.Errorf("%.200v: %v", m, err)
			}
		}
		for _, m := range test.bad {
			if _, err, _ := wiretest.Receive(wire.Encode(m), wiretest.AnySide); !wiretest.IsInvalidValue(err, test.want) {
				t.Errorf("%.200v: %v; want %s", m, err, test.want)
			}
		}
	}
}

// A value that a helper reports of a job is at most the Max of its column, and there are no values without a column.
func TestReportedValuesAreBounded(t *testing.T) {
	listed := func(reported ...int64) wire.Message {
		return &wire.LedgerListed{Claims: []job.Claim{{Reported: reported}}}
	}
	for i, c := range column.All {
		before := make([]int64, i)
		for _, value := range []int64{column.None, 0, c.Max} {
			m, err, _ := wiretest.Receive(wire.Encode(listed(append(before, value)...)), wiretest.AnySide)
			if err != nil || c.Of(m.(*wire.LedgerListed).Claims[0].Reported) != value {
				t.Errorf("%s %d: %v, %v", c.Name, value, m, err)
			}
		}
		for _, value := range []int64{math.MinInt64, column.None - 1, c.Max + 1, math.MaxInt64} {
			if _, err, _ := wiretest.Receive(wire.Encode(listed(append(before, value)...)), wiretest.AnySide); !wiretest.IsInvalidValue(err, fmt.Sprintf("%s %d", c.Name, value)) {
				t.Errorf("%s %d: %v", c.Name, value, err)
			}
		}
	}
	tooMany := make([]int64, len(column.All)+1)
	if _, err, _ := wiretest.Receive(wire.Encode(listed(tooMany...)), wiretest.AnySide); !wiretest.IsInvalidValue(err, fmt.Sprintf("%d columns", len(tooMany))) {
		t.Errorf("a value without a column: %v", err)
	}
}

func probe(change func(*job.Probe)) wire.Message {
	p := job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{7}, CoreLocation: pin.UnknownLocation}}}}
	change(&p)
	return &wire.NodeInfo{Probe: p}
}

func gpus(n int) wire.Message {
	return probe(func(p *job.Probe) {
		for i := range n {
			p.GPUs = append(p.GPUs, gpu.GPU{Vendor: gpu.AMD, Index: i})
		}
	})
}

func cores(n int) wire.Message {
	return probe(func(p *job.Probe) {
		p.Topology.Cores = make([]pin.Core, n)
	})
}

func prepare(size, rank, app int) wire.Message {
	return &wire.Prepare{Group: wire.Group{Size: size}, Apps: []job.App{{Argv: []string{"a"}}, {Argv: []string{"b"}}}, Ranks: []job.RankPlan{{Rank: rank, App: app}}}
}

// unboundedIn returns the fields of a kind of message that need no limit: limits and tickets, which come from other users, can
// be any number that is not negative.
func unboundedIn(kind string) []string {
	if kind == "SignalJob" {
		return nil
	}
	return []string{"Soft", "Hard", "Memory", "Processes", "Number"}
}

// Every field of every message has a limit: numbers, texts, and the lists that a helper sends.
func TestEveryFieldHasALimit(t *testing.T) {
	for _, m := range messages(rand.New(rand.NewPCG(5, 6))) {
		wiretest.CheckLimits(t, m, unboundedIn(wire.NameOf(m))...)
	}
}
