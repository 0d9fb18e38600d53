//go:build linux

package rank

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/idset"
	"remshell/pin"
)

func TestSet(t *testing.T) {
	for _, test := range []struct {
		numbers []int
		words   int
	}{
		{nil, 0}, {[]int{0}, 1}, {[]int{63}, 64 / wordBits}, {[]int{64}, 64/wordBits + 1}, {[]int{0, 1, 1023}, 1024 / wordBits},
		{[]int{1024}, 1024/wordBits + 1}, {[]int{3, 1500, 65535}, 65536 / wordBits},
	} {
		s := cpuSetOf(test.numbers)
		if len(s) != test.words || !slices.Equal(cpuNumbers(s), test.numbers) {
			t.Errorf("%v: %d words, %v", test.numbers, len(s), cpuNumbers(s))
		}
	}
	if s := cpuSetOf([]int{1, wordBits}); s[0] != 2 || s[1] != 1 {
		t.Errorf("bits %b", s)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var numbers []int
		for n := r.IntN(100); n < 9000; n += 1 + r.IntN(400) {
			numbers = append(numbers, n)
		}
		if got := cpuNumbers(cpuSetOf(numbers)); !slices.Equal(got, numbers) {
			t.Fatalf("%v became %v", numbers, got)
		}
	}
}

// A fakeCalls is a kernel that records its calls, and refuses some CPUs and nodes.
type fakeCalls struct {
	log  []string
	cpus unix.CPUSetDynamic
	mems memPolicy
	no   error // for memory policies

	denied error // for CPUs; nil: they are bound
}

func (c *fakeCalls) kernel() bindingCalls {
	note := func(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }
	return bindingCalls{
		setCPUs: func(s unix.CPUSetDynamic) error {
			note("cpus %s", idset.Text(cpuNumbers(s)))
			if c.denied != nil {
				return c.denied
			}
			if slices.Contains(cpuNumbers(s), 99) {
				return unix.EINVAL
			}
			c.cpus = s
			return nil
		},
		getCPUs: func() (unix.CPUSetDynamic, error) {
			return cpuSetOf(slices.DeleteFunc(cpuNumbers(c.cpus), func(cpu int) bool { return cpu >= 8 })), nil
		},
		setPolicy: func(p memPolicy) error {
			note("memory %d %s", p.mode, idset.Text(cpuNumbers(p.nodes)))
			if c.no == nil {
				c.mems = p
			}
			return c.no
		},
		getPolicy: func() (memPolicy, error) { return c.mems, nil },
	}
}

// Each bound rank has its CPUs, and the others have the helper's. No unnecessary call is made.
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
		c := &fakeCalls{cpus: cpuSetOf([]int{0, 1, 2, 3, 4, 5, 6, 7})}
		b := &Binder{bindingCalls: c.kernel(), warn: func(text string) { t.Errorf("%s: warned: %s", test.name, text) }}
		for _, cpus := range test.ranks {
			got, err := b.bindCPUs(cpus)
			if refused := slices.Contains(cpus, 99); (err != nil) != refused || !refused && !slices.Equal(got, cpus) {
				t.Errorf("%s: bound to %v, %v; want %v", test.name, got, err, cpus)
			}
		}
		b.Restore()
		if got := strings.Join(c.log, "; "); got != test.log {
			t.Errorf("%s: %s; want %s", test.name, got, test.log)
		}
	}
}

// If the kernel forbids binding and it is not required, there is one warning, and memory is not bound either. If it is
// required, there is an error.
func TestBinderIsDenied(t *testing.T) {
	for _, test := range []struct {
		err      error
		required bool
		log      string
		warns    int
		fails    bool
	}{
		{unix.EPERM, false, "cpus 1", 1, false}, {unix.EACCES, false, "cpus 1", 1, false}, {unix.ENOSYS, false, "cpus 1", 1, false},
		{unix.EPERM, true, "cpus 1; cpus 2", 0, true}, {unix.EINVAL, false, "cpus 1; cpus 2", 0, true},
	} {
		c := &fakeCalls{cpus: cpuSetOf([]int{0, 1}), denied: test.err}
		warns := 0
		b := &Binder{bindingCalls: c.kernel(), required: test.required, warn: func(string) { warns++ }, allowedMems: func() []int { return nil }}
		for _, cpu := range []int{1, 2} {
			got, err := b.bindCPUs([]int{cpu})
			if (err != nil) != test.fails || got != nil {
				t.Errorf("%v, required %v: %v, %v", test.err, test.required, got, err)
			}
			if !test.fails && b.bindMemory([]int{0}, "") != nil {
				t.Errorf("%v: memory is bound", test.err)
			}
		}
		b.Restore()
		if log := strings.Join(c.log, "; "); log != test.log || warns != test.warns {
			t.Errorf("%v, required %v: %d warnings, %s", test.err, test.required, warns, log)
		}
	}
}

// The kernel silently removes CPUs outside of the CPU set.
func TestBinderReportsANarrowedSet(t *testing.T) {
	var warnings []string
	c := &fakeCalls{cpus: cpuSetOf([]int{0, 7})}
	b := &Binder{bindingCalls: c.kernel(), warn: func(text string) { warnings = append(warnings, text) }}
	for _, cpus := range [][]int{{6, 7, 8}, {7, 9}} {
		if got, err := b.bindCPUs(cpus); err != nil || slices.Max(got) != 7 {
			t.Errorf("bound to %v, %v", got, err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "cannot bind a rank to CPUs 6-8: the kernel now allows only 6-7 of these CPUs") {
		t.Errorf("warnings %q", warnings)
	}
}

// The policy is the rank's during its fork and the helper's at any other time.
func TestBinderBindsMemory(t *testing.T) {
	for _, test := range []struct {
		name  string
		own   memPolicy
		no    error
		here  []int // nodes where the helper has memory
		ranks [][]int
		log   string
		warns int
	}{
		{"none", memPolicy{}, nil, nil, [][]int{nil, nil}, "", 0},
		{"each its own", memPolicy{}, nil, nil, [][]int{{0}, {1, 3}}, "memory 2 0; memory 0 ; memory 2 1,3; memory 0 ", 0},
		{"the helper has a policy", memPolicy{3, cpuSetOf([]int{0, 1})}, nil, nil, [][]int{{0}}, "memory 2 0; memory 3 0-1", 0},
		{"refused: one warning, no second attempt", memPolicy{}, unix.EPERM, []int{0, 1}, [][]int{{0}, {1}}, "memory 2 0; memory 0 ", 1},
		{"refused where it makes no difference", memPolicy{}, unix.EPERM, []int{0}, [][]int{{0}}, "memory 2 0; memory 0 ", 0},
	} {
		var warnings []string
		c := &fakeCalls{mems: test.own, no: test.no}
		b := &Binder{bindingCalls: c.kernel(), warn: func(text string) { warnings = append(warnings, text) },
			allowedMems: func() []int { return test.here }}
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

// Memory modes other than binding to the rank's own NUMA nodes.
func TestBinderMemoryModes(t *testing.T) {
	c := &fakeCalls{}
	b := &Binder{bindingCalls: c.kernel(), warn: func(text string) { t.Error(text) }, allowedMems: func() []int { return nil }}
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

// The cost of binding a rank: nearly nothing if it has the CPUs of the rank before, else a move of the fork thread.
func BenchmarkBind(b *testing.B) {
	cpus, err := probe.AllowedCPUs(os.DirFS("/"))
	if err != nil {
		b.Fatal(err)
	}
	for name, turns := range map[string][]int{"same": cpus[:1], "other": cpus} {
		b.Run(name, func(b *testing.B) {
			NewForkThread().Do(func() {
				bind := &Binder{bindingCalls: realBindingCalls(), warn: func(text string) { b.Error(text) }, allowedMems: func() []int { return nil }}
				i := 0
				for b.Loop() {
					i = (i + 1) % len(turns)
					bind.bindCPUs(turns[i : i+1])
					bind.bindMemory([]int{0}, "")
					bind.releaseMemory()
				}
				bind.Restore()
			})
		})
	}
}
