package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/job/column"
	"remshell/pin"
	"remshell/pmiserver/spawn"
)

// receive returns the first message of a stream and the bytes of memory that reading it took.
func receive(stream []byte, self Side) (m Message, err error, took uint64) {
	c := NewConn(&memory{r: bytes.NewReader(stream)}, self)
	defer c.Abandon()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err = c.Recv()
	runtime.ReadMemStats(&after)
	return m, err, after.TotalAlloc - before.TotalAlloc
}

// cannotBe reports whether err is a Violation because of an invalid value.
func cannotBe(err error, words string) bool {
	v, ok := err.(Violation)
	return ok && strings.Contains(string(v), " that cannot be: ") && strings.Contains(string(v), words)
}

// Each limit of TRUST-7 is accepted, and one more is refused.
func TestBounds(t *testing.T) {
	core := func(n int) Message { return probe(func(p *job.Probe) { p.Topology.Cores[0].CPUs[0] = n }) }
	place := func(set func(p *pin.CoreLocation, n int)) func(int) Message {
		return func(n int) Message {
			return probe(func(p *job.Probe) { set(&p.Topology.Cores[0].CoreLocation, n) })
		}
	}
	load := func(x float64) Message { return probe(func(p *job.Probe) { p.Load[1] = x }) }
	memory := func(n int) Message { return probe(func(p *job.Probe) { p.Memory.Total = int64(n) }) }
	huge := func(size, pages int64) Message {
		return probe(func(p *job.Probe) {
			p.Memory.HugePages = job.HugePages{Probed: true, Size: size, Total: pages, Free: pages}
		})
	}
	card := func(set func(g *gpu.GPU)) Message {
		return probe(func(p *job.Probe) {
			p.GPUs = []gpu.GPU{{Vendor: gpu.AMD, NUMA: -1}}
			set(&p.GPUs[0])
		})
	}
	exit := func(code, signal int) Message { return &Exited{job.Exit{Code: code, Signal: signal}} }
	use := func(u job.Occupancy) Message { return &Surveyed{Occupancy: u} }
	traits := func(t job.Attributes) Message { return &Surveyed{Attributes: t} }
	at := func(messages ...Message) []Message { return messages }
	tests := []struct {
		good, bad []Message
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
		{at(huge(1<<60, 1<<60)), at(huge(-1, 0), huge(0, -1), huge(1<<60+1, 0), huge(0, 1<<60+1)), " that cannot be: "},
		{at(card(func(g *gpu.GPU) { g.Index = 255 }), card(func(g *gpu.GPU) { g.Address = strings.Repeat("a", 64) })),
			at(card(func(g *gpu.GPU) { g.Index = 256 }), card(func(g *gpu.GPU) { g.Index = -1 })), "GPU "},
		{nil, at(card(func(g *gpu.GPU) { g.Address = strings.Repeat("a", 65) })), "address of 65 bytes"},
		{at(gpus(256)), at(gpus(257)), "257 GPUs"},
		{at(cores(maxCores)), at(cores(maxCores + 1)), "16385 cores"},
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
			traits(job.Attributes{Speed: 1, SpeedQuality: job.SpeedGiven})), "attributes that no probe finds"},
		{at(exit(0, 0), exit(255, 0), exit(0, 64)), at(exit(256, 0), exit(-1, 0), exit(1<<32, 0), exit(3, 9)), "code "},
		{nil, at(exit(0, 65), exit(0, -1)), "signal "},
		{at(&Exited{job.Exit{Usage: job.Usage{Wall: maxTime}}}), at(&Exited{job.Exit{Usage: job.Usage{Wall: maxTime + 1}}}, &Exited{job.Exit{Usage: job.Usage{User: -1}}}), "time "},
		{at(&Exited{job.Exit{StdinRead: -1}}, &Exited{job.Exit{StdinRead: 1 << 60}}), at(&Exited{job.Exit{StdinRead: -2}}, &Exited{job.Exit{StdinRead: 1<<60 + 1}}), "input "},
		{at(&Exited{job.Exit{Usage: job.Usage{InBlocks: 1 << 60}}}), at(&Exited{job.Exit{Usage: job.Usage{InBlocks: 1<<60 + 1}}}, &Exited{job.Exit{Usage: job.Usage{OutBlocks: -1}}}), "blocks "},
		{at(&SampledUsage{Host: job.UsageSample{CPU: maxTime, Mem: 1 << 60, VMem: 1 << 60}}), at(&SampledUsage{Host: job.UsageSample{Mem: 1<<60 + 1}}, &SampledUsage{Host: job.UsageSample{VMem: -1}},
			&SampledUsage{Ranks: []job.RankUsageSample{{UsageSample: job.UsageSample{Mem: -1}}}}), "bytes "},
		{nil, at(&SampledUsage{Host: job.UsageSample{CPU: -1}}, &SampledUsage{Host: job.UsageSample{CPU: maxTime + 1}}), "time "},
		{at(&PMIReport{Event: PMIAborted, Code: 255, Rank: -1}), at(&PMIReport{Event: PMIAborted, Code: 256}, &PMIReport{Event: PMIMalformed, Code: -1}), "code "},
		{nil, at(&PMIReport{Event: 0}, &PMIReport{Event: PMIxWaits + 1}), "event "},
		{at(&Started{PID: 1}, &Started{Err: "no"}, &Started{PID: 1 << 22}), at(&Started{}, &Started{PID: -5}, &Started{PID: 1<<22 + 1}), "pid "},
		{at(&Refused{Code: 0}, &Refused{Code: 255}), at(&Refused{Code: -1}, &Refused{Code: 256}), "code "},
		{at(&Data{Bytes: make([]byte, Window)}), at(&Data{Bytes: make([]byte, Window+1)}), "65537 bytes"},
		{at(&Data{Stream: Stderr}), at(&Data{Stream: 3}, &Credit{Stream: -1}), "stream "},
		{at(&ProbePortOpened{Port: 65535}), at(&ProbePortOpened{Port: 65536}, &ProbePortOpened{Port: -1}), "port "},
		{at(spawnOf(1), spawnOf(1<<24)), at(spawnOf(0), spawnOf(1<<24+1)), "count "},
		{nil, at(&Spawn{Request: spawn.Request{Commands: []spawn.Command{{Count: 1}}}}), "command without a program"},
		{at(&LedgerListed{Claims: make([]job.Claim, 4000), Tickets: make([]job.Ticket, 96)}),
			at(&LedgerListed{Claims: make([]job.Claim, 4000), Tickets: make([]job.Ticket, 97)}), "97 tickets"},
		{nil, at(&LedgerListed{Claims: []job.Claim{{CPUsPerRank: -1}}}, &LedgerListed{Claims: []job.Claim{{ExactPerNode: -1}}}, &LedgerListed{Tickets: []job.Ticket{{ExactPerNode: -1}}}), "size -1"},
		{at(prepare(2, 0, 1)), at(prepare(2, 2, 0)), "rank 2 of 2"},
		{nil, at(prepare(2, 0, 2)), "app context 2"},
		{nil, at(&Prepare{Apps: []job.App{{}}}), "app context 0 without a program"},
	}
	for _, test := range tests {
		for _, m := range test.good {
			if _, err, _ := receive(Encode(m), anySide); err != nil {
				t.Errorf("%.200v: %v", m, err)
			}
		}
		for _, m := range test.bad {
			if _, err, _ := receive(Encode(m), anySide); !cannotBe(err, test.want) {
				t.Errorf("%.200v: %v; want %s", m, err, test.want)
			}
		}
	}
}

// A value that a helper reports of a job is at most the Max of its column, and there are no values without a column.
func TestReportedValuesAreBounded(t *testing.T) {
	listed := func(reported ...int64) Message {
		return &LedgerListed{Claims: []job.Claim{{Reported: reported}}}
	}
	for i, c := range column.All {
		before := make([]int64, i)
		for _, value := range []int64{column.None, 0, c.Max} {
			m, err, _ := receive(Encode(listed(append(before, value)...)), anySide)
			if err != nil || c.Of(m.(*LedgerListed).Claims[0].Reported) != value {
				t.Errorf("%s %d: %v, %v", c.Name, value, m, err)
			}
		}
		for _, value := range []int64{math.MinInt64, column.None - 1, c.Max + 1, math.MaxInt64} {
			if _, err, _ := receive(Encode(listed(append(before, value)...)), anySide); !cannotBe(err, fmt.Sprintf("%s %d", c.Name, value)) {
				t.Errorf("%s %d: %v", c.Name, value, err)
			}
		}
	}
	tooMany := make([]int64, len(column.All)+1)
	if _, err, _ := receive(Encode(listed(tooMany...)), anySide); !cannotBe(err, fmt.Sprintf("%d columns", len(tooMany))) {
		t.Errorf("a value without a column: %v", err)
	}
}

func probe(change func(*job.Probe)) Message {
	p := job.Probe{Topology: pin.Topology{Cores: []pin.Core{{CPUs: []int{7}, CoreLocation: pin.UnknownLocation}}}}
	change(&p)
	return &NodeInfo{Probe: p}
}

func gpus(n int) Message {
	return probe(func(p *job.Probe) {
		for i := range n {
			p.GPUs = append(p.GPUs, gpu.GPU{Vendor: gpu.AMD, Index: i})
		}
	})
}

func cores(n int) Message {
	return probe(func(p *job.Probe) {
		p.Topology.Cores = make([]pin.Core, n)
	})
}

func spawnOf(n int) Message {
	return &Spawn{Request: spawn.Request{Commands: []spawn.Command{{Argv: []string{"a"}, Count: n}}}}
}

func prepare(size, rank, app int) Message {
	return &Prepare{Group: Group{Size: size}, Apps: []job.App{{Argv: []string{"a"}}, {Argv: []string{"b"}}}, Ranks: []job.RankPlan{{Rank: rank, App: app}}}
}

// unbounded are the numbers that can have any value that is not negative: limits and tickets come from
// other users.
var unbounded = []string{"Soft", "Hard", "Memory", "Processes", "Number"}

// Every field of every message has a limit: numbers, texts, and the lists that a helper sends.
func TestEveryFieldHasALimit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, m := range messages(r) {
		kind := kindOf(m)
		leaves(reflect.ValueOf(m).Elem(), func(name string, v reflect.Value) {
			where := kind.Name + "." + name
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			defer v.Set(old)
			switch v.Kind() {
			case reflect.Int, reflect.Int8, reflect.Int64:
				refusesNumbers(t, m, where, v, !slices.Contains(unbounded, name) || kind.Name == "SignalJob")
			case reflect.Float64:
				v.SetFloat(math.Inf(1))
				refuses(t, m, where)
			case reflect.String:
				if kind.Sender == Helper && kind.Name != "Spawn" || v.Len() > 0 && proseOf(m, v) {
					refusesTexts(t, m, where, v)
				}
			case reflect.Slice:
				if kind.Sender == Helper && v.Type().Elem().Kind() != reflect.Uint8 {
					long := reflect.MakeSlice(v.Type(), 0, maxCPUs+1)
					for range maxCPUs + 1 {
						long = reflect.Append(long, reflect.Zero(v.Type().Elem()))
					}
					v.Set(long)
					refuses(t, m, where)
				}
			}
		})
	}
}

// leaves calls f for every settable field within v.
func leaves(v reflect.Value, f func(name string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).CanSet() || !walked(v.Type(), v.Type().Field(i).Name) {
				continue
			}
			leaves(v.Field(i), func(name string, leaf reflect.Value) {
				if name == "" {
					name = v.Type().Field(i).Name
				}
				f(name, leaf)
			})
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		f("", v)
		leaves(v.Index(0), f)
	case v.Kind() == reflect.Array:
		leaves(v.Index(0), f)
	default:
		f("", v)
	}
}

// walked reports whether a field of a type is encoded.
func walked(of reflect.Type, field string) bool {
	switch of {
	case reflect.TypeFor[job.App]():
		return slices.Contains([]string{"Argv", "Dir", "SearchBefore", "SearchAfter", "Env", "RankNeeds", "GPUs"}, field)
	case reflect.TypeFor[job.RankNeeds]():
		return field == "GPUs"
	case reflect.TypeFor[job.Occupancy]():
		return field != "OwnRanks"
	case reflect.TypeFor[job.Leftover]():
		return field != "Node"
	}
	return true
}

// refuses checks that receiving m is a violation.
func refuses(t *testing.T, m Message, where string) {
	t.Helper()
	frame := Encode(m)
	_, n := binary.Uvarint(frame[1:])
	if err := decode(kindOf(m).New(), frame[1+n:]); !cannotBe(err, "") {
		t.Errorf("%s can be anything: %v", where, err)
	}
}

func refusesNumbers(t *testing.T, m Message, where string, v reflect.Value, both bool) {
	beyond := 64 - v.Type().Bits()
	v.SetInt(math.MinInt64 >> beyond)
	refuses(t, m, where)
	if both {
		v.SetInt(math.MaxInt64 >> beyond)
		refuses(t, m, where)
	}
}

// proseOf reports whether a text is truncated when it is written.
func proseOf(m Message, v reflect.Value) bool {
	v.SetString(strings.Repeat("x", 1<<20))
	return len(Encode(m)) < 1<<20
}

// refusesTexts checks that a text one byte too long is refused. It puts the text into the frame
// directly, because a writer would truncate it.
func refusesTexts(t *testing.T, m Message, where string, v reflect.Value) {
	if !proseOf(m, v) {
		refuses(t, m, where)
		return
	}
	frame := Encode(m)
	_, n := binary.Uvarint(frame[1:])
	body := frame[1+n:]
	start := bytes.Index(body, []byte("xxxxxxxxxx"))
	end := start + bytes.IndexByte(body[start:], '.')
	length := len(binary.AppendVarint(nil, int64(end-start+3)))
	for _, most := range []int{maxWord, maxSentence, maxStack, maxLine} {
		if end-start > most {
			continue
		}
		for size := most; size <= most+1; size++ {
			forged := binary.AppendVarint(slices.Clone(body[:start-length]), int64(size))
			forged = append(append(forged, strings.Repeat("x", size)...), body[end+3:]...)
			err := decode(kindOf(m).New(), forged)
			if good := size == most; good != (err == nil) || !good && !cannotBe(err, fmt.Sprintf(" of %d bytes", size)) {
				t.Errorf("%s of %d bytes: %v", where, size, err)
			}
		}
		return
	}
	t.Errorf("%s has no bound: %d bytes", where, end-start)
}
