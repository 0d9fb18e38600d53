//go:build linux

package helper

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/pin"
	"remshell/wire"
)

func TestSet(t *testing.T) {
	for _, test := range []struct {
		numbers []int
		words   int
	}{
		{nil, 0}, {[]int{0}, 1}, {[]int{63}, 64 / wordBits}, {[]int{64}, 64/wordBits + 1}, {[]int{0, 1, 1023}, 1024 / wordBits},
		{[]int{1024}, 1024/wordBits + 1}, {[]int{3, 1500, 65535}, 65536 / wordBits},
	} {
		s := setOf(test.numbers)
		if len(s) != test.words || !slices.Equal(s.numbers(), test.numbers) {
			t.Errorf("%v: %d words, %v", test.numbers, len(s), s.numbers())
		}
	}
	if s := setOf([]int{1, wordBits}); s[0] != 2 || s[1] != 1 {
		t.Errorf("bits %b", s)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var numbers []int
		for n := r.IntN(100); n < 9000; n += 1 + r.IntN(400) {
			numbers = append(numbers, n)
		}
		if got := setOf(numbers).numbers(); !slices.Equal(got, numbers) {
			t.Fatalf("%v became %v", numbers, got)
		}
	}
}

// A calls is a kernel that notes what it is asked for, and refuses some CPUs and nodes.
type calls struct {
	log  []string
	cpus set
	mems policy
	no   error // of a memory policy
}

func (c *calls) kernel() kernel {
	note := func(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }
	return kernel{
		setCPUs: func(s set) error {
			note("cpus %s", pin.Text(s.numbers()))
			if slices.Contains(s.numbers(), 99) {
				return unix.EINVAL
			}
			c.cpus = s
			return nil
		},
		getCPUs: func() (set, error) {
			return setOf(slices.DeleteFunc(c.cpus.numbers(), func(cpu int) bool { return cpu >= 8 })), nil
		},
		setPolicy: func(p policy) error {
			note("memory %d %s", p.mode, pin.Text(p.nodes.numbers()))
			if c.no == nil {
				c.mems = p
			}
			return c.no
		},
		getPolicy: func() (policy, error) { return c.mems, nil },
	}
}

// Each rank has its CPUs, and those that are not bound have the helper's; no call is made
// in vain.
func TestBinderBindsCPUs(t *testing.T) {
	for _, test := range []struct {
		name  string
		ranks [][]int
		log   string
	}{
		{"unbound only", [][]int{nil, nil}, ""},
		{"one, and restored", [][]int{{1}}, "cpus 1; cpus 0-7"},
		{"equal ones", [][]int{{1, 2}, {1, 2}, {3}}, "cpus 1-2; cpus 3; cpus 0-7"},
		{"bound and unbound", [][]int{nil, {1}, nil, nil, {1}}, "cpus 1; cpus 0-7; cpus 1; cpus 0-7"},
		{"a refused one leaves no trace", [][]int{{1}, {99}, nil}, "cpus 1; cpus 99; cpus 0-7"},
		{"a refused first one", [][]int{{99}, nil}, "cpus 99"},
	} {
		c := &calls{cpus: setOf([]int{0, 1, 2, 3, 4, 5, 6, 7})}
		b := &binder{kernel: c.kernel(), warn: func(text string) { t.Errorf("%s: warned: %s", test.name, text) }}
		for _, cpus := range test.ranks {
			got, err := b.bindCPUs(cpus)
			if refused := slices.Contains(cpus, 99); (err != nil) != refused || !refused && !slices.Equal(got, cpus) {
				t.Errorf("%s: bound to %v, %v; want %v", test.name, got, err, cpus)
			}
		}
		b.restore()
		if got := strings.Join(c.log, "; "); got != test.log {
			t.Errorf("%s: %s; want %s", test.name, got, test.log)
		}
	}
}

// The kernel takes away what lies outside of the CPU set, and says nothing.
func TestBinderTellsOfANarrowedSet(t *testing.T) {
	var warnings []string
	c := &calls{cpus: setOf([]int{0, 7})}
	b := &binder{kernel: c.kernel(), warn: func(text string) { warnings = append(warnings, text) }}
	for _, cpus := range [][]int{{6, 7, 8}, {7, 9}} {
		if got, err := b.bindCPUs(cpus); err != nil || slices.Max(got) != 7 {
			t.Errorf("bound to %v, %v", got, err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "CPUs 6-8 were to be bound, and the kernel leaves 6-7") {
		t.Errorf("warnings %q", warnings)
	}
}

// The policy is that of the rank at its fork and the helper's at any other time.
func TestBinderBindsMemory(t *testing.T) {
	for _, test := range []struct {
		name  string
		own   policy
		no    error
		here  []int // where the helper has memory
		ranks [][]int
		log   string
		warns int
	}{
		{"none", policy{}, nil, nil, [][]int{nil, nil}, "", 0},
		{"each its own", policy{}, nil, nil, [][]int{{0}, {1, 3}}, "memory 2 0; memory 0 ; memory 2 1,3; memory 0 ", 0},
		{"the helper has a policy", policy{3, setOf([]int{0, 1})}, nil, nil, [][]int{{0}}, "memory 2 0; memory 3 0-1", 0},
		{"refused: one warning, no second attempt", policy{}, unix.EPERM, []int{0, 1}, [][]int{{0}, {1}}, "memory 2 0; memory 0 ", 1},
		{"refused where it makes no difference", policy{}, unix.EPERM, []int{0}, [][]int{{0}}, "memory 2 0; memory 0 ", 0},
	} {
		var warnings []string
		c := &calls{mems: test.own, no: test.no}
		b := &binder{kernel: c.kernel(), warn: func(text string) { warnings = append(warnings, text) },
			everywhere: func() []int { return test.here }}
		for _, mems := range test.ranks {
			if got := b.bindMemory(mems, ""); test.no == nil && !slices.Equal(got, mems) || test.no != nil && got != nil {
				t.Errorf("%s: bound to %v, want %v", test.name, got, mems)
			}
			b.releaseMemory()
		}
		if got := strings.Join(c.log, "; "); !strings.HasPrefix(got, test.log) || len(warnings) != test.warns {
			t.Errorf("%s: %s, warnings %q; want %s, %d", test.name, got, warnings, test.log, test.warns)
		}
	}
}

// Other modes than that of the rank's own NUMA nodes.
func TestBinderMemoryModes(t *testing.T) {
	c := &calls{}
	b := &binder{kernel: c.kernel(), warn: func(text string) { t.Error(text) }, everywhere: func() []int { return nil }}
	if got := b.bindMemory([]int{0, 2}, pin.Interleave); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("interleaved on %v", got)
	}
	b.releaseMemory()
	if got := b.bindMemory(nil, pin.Local); got != nil {
		t.Errorf("local: %v", got)
	}
	b.releaseMemory()
	if got, want := strings.Join(c.log, "; "), "memory 3 0,2; memory 0 ; memory 4 ; memory 0 "; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// usable lists the CPUs of this process.
func usable(t *testing.T) []int {
	t.Helper()
	cpus, err := probe.AllowedCPUs(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// looks prints the mask and the policy of a rank, of a child of it, and its variables.
const looks = `grep Cpus_allowed_list /proc/self/status
(sh -c 'grep Cpus_allowed_list /proc/$$/status'; exit)
cut -d " " -f 2 /proc/self/numa_maps | sort -u
echo "$PSID_CPU_PINNING $__PINNING__ $MPIEXEC_BINDING"`

// Ranks that are bound, each to one CPU, and one between them that is not.
func TestRanksAreBound(t *testing.T) {
	cpus := usable(t)
	first, last := cpus[:1], cpus[len(cpus)-1:]
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Supervision.Report, m.Node.Slots = true, 2
		m.Ranks[0].Slots, m.Ranks[0].CPUs, m.Ranks[0].Mems = []int{0}, first, []int{0}
		m.Ranks[1].Slots, m.Ranks[1].Mems = []int{1}, []int{0}
		m.Ranks[2].Slots, m.Ranks[2].CPUs = []int{1}, last
	}, looks, looks, looks)
	before := threadMasks(t)
	k.conn.Send(&wire.Start{})
	var exits int
	for started := 0; started < 3 || exits < 3; {
		switch m := k.next().(type) {
		case *wire.Started:
			started++
			want := [][]int{first, nil, last}[m.Rank]
			if !slices.Equal(m.CPUs, want) || (len(m.Mems) > 0) != (m.Rank < 2) {
				t.Errorf("rank %d is bound to CPUs %v, memory %v; want %v", m.Rank, m.CPUs, m.Mems, want)
			}
		case *wire.Exited:
			exits++
		case nil:
			t.Fatal("the helper ended")
		}
	}
	for rank, want := range []struct {
		cpus    []int
		policy  string
		pinning string
		binding string
	}{
		{first, "bind:0", "0x0001 ", pin.Text(first)}, {cpus, "bind:0", "0x0002  ", "none"}, {last, "default", "0x0002 ", pin.Text(last)},
	} {
		mask := "Cpus_allowed_list:\t" + pin.Text(want.cpus) + "\n"
		got := k.out[rank]
		if !strings.HasPrefix(got, mask+mask+want.policy+"\n"+want.pinning) || !strings.HasSuffix(got, " "+want.binding+"\n") {
			t.Errorf("rank %d: %q, want %q twice, %s, %s, %s", rank, got, mask, want.policy, want.pinning, want.binding)
		}
	}
	k.bye()
	if after := threadMasks(t); before != after {
		t.Errorf("our own threads had %s, and have %s", before, after)
	}
}

// threadMasks are the CPU masks that our own threads have, each once.
func threadMasks(t *testing.T) string {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	var masks []string
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // it may be over
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Cpus_allowed_list:") {
				masks = append(masks, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(masks)
	return strings.Join(slices.Compact(masks), "; ")
}

// A rank that cannot have its CPUs does not start (placement.md 7.7); the others may.
func TestARankWithoutItsCPUsDoesNotStart(t *testing.T) {
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Ranks[0].CPUs = []int{60000, 60001}
		m.Ranks[1].CPUs = append(usable(t)[:1:1], 60000) // the kernel passes over what it does not know
	}, "exit 1", "grep Cpus_allowed_list /proc/self/status")
	k.conn.Send(&wire.Start{})
	m := hear[*wire.Started](k)
	if m.Rank != 0 || m.Code != exitInternal || m.Err != "cannot be bound to CPUs 60000-60001: invalid argument" || !strings.Contains(m.Hint, "--no-pin") {
		t.Errorf("%+v", m)
	}
	if exit := hear[*wire.Exited](k).Exit; exit.Rank != 1 || exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", usable(t)[0]); k.out[1] != want {
		t.Errorf("rank 1: %q, want %q", k.out[1], want)
	}
	k.bye()
}

// A script without "#!" is a second fork, which is bound as well.
func TestAScriptIsBound(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("grep Cpus_allowed_list /proc/$$/status\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cpu := usable(t)[0]
	k := newTalk(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Apps[0].Argv = []string{script}
		m.Ranks[0].CPUs = []int{cpu}
	}, "")
	k.conn.Send(&wire.Start{})
	hear[*wire.Exited](k)
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); k.out[0] != want {
		t.Errorf("%q, want %q", k.out[0], want)
	}
	k.bye()
}

// What binding costs a rank: nearly nothing if it has the CPUs of the one before, else a
// move of the starter's thread.
func BenchmarkBind(b *testing.B) {
	cpus, err := probe.AllowedCPUs(os.DirFS("/"))
	if err != nil {
		b.Fatal(err)
	}
	for name, turns := range map[string][]int{"same": cpus[:1], "other": cpus} {
		b.Run(name, func(b *testing.B) {
			newStarter().do(func() {
				bind := &binder{kernel: thisKernel(), warn: func(text string) { b.Error(text) }, everywhere: func() []int { return nil }}
				i := 0
				for b.Loop() {
					i = (i + 1) % len(turns)
					bind.bindCPUs(turns[i : i+1])
					bind.bindMemory([]int{0}, "")
					bind.releaseMemory()
				}
				bind.restore()
			})
		})
	}
}
