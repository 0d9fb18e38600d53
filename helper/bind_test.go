//go:build linux

package helper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/helper/probe"
	"remshell/idset"
	"remshell/job"
	"remshell/wire"
)

// usable returns the CPUs that this process may use.
func usable(t *testing.T) []int {
	t.Helper()
	cpus, err := probe.AllowedCPUs(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// affinityScript prints the CPU mask and memory policy of a rank and of a child of it, and the rank's variables.
const affinityScript = `grep Cpus_allowed_list /proc/self/status
(sh -c 'grep Cpus_allowed_list /proc/$$/status'; exit)
cut -d " " -f 2 /proc/self/numa_maps | sort -u
echo "$PSID_CPU_PINNING $__PINNING__ $MPIEXEC_BINDING"`

// Two ranks are bound to one CPU each; the one between them is not bound.
func TestRanksAreBound(t *testing.T) {
	cpus := usable(t)
	first, last := cpus[:1], cpus[len(cpus)-1:]
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Node.Slots = 2
		m.Ranks[0].Slots, m.Ranks[0].CPUs, m.Ranks[0].Mems = []int{0}, first, []int{0}
		m.Ranks[1].Slots, m.Ranks[1].Mems = []int{1}, []int{0}
		m.Ranks[2].Slots, m.Ranks[2].CPUs = []int{1}, last
	}, affinityScript, affinityScript, affinityScript)
	before := threadMasks(t)
	k.conn.Send(&wire.Start{})
	var exits int
	for started := 0; started < 3 || exits < 3; {
		switch k.nextMessage().(type) {
		case *wire.Started:
			started++
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
		{first, "bind:0", "0x0001 ", idset.Text(first)}, {cpus, "bind:0", "0x0002  ", "none"}, {last, "default", "0x0002 ", idset.Text(last)},
	} {
		mask := "Cpus_allowed_list:\t" + idset.Text(want.cpus) + "\n"
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

// The more ranks with PMIx share a CPU, the more timer slack they get (PMIX-70).
func TestTimersOfRanksThatShareCPUs(t *testing.T) {
	const look = "cat /proc/self/timerslack_ns"
	cpus := usable(t)
	for _, test := range []struct {
		offer job.PMIOffer
		share bool
		want  string
	}{
		{job.PMIOfferBoth, true, "150000\n"}, {job.PMIOfferPMIx, true, "150000\n"}, {job.PMIOfferPMI1, true, "50000\n"}, {job.PMIOfferBoth, false, "50000\n"},
	} {
		k := newTestHelper(t)
		scripts := []string{look, look, look}
		if !test.share {
			scripts = scripts[:1]
		}
		k.prepareAs(func(m *wire.Prepare) {
			for i := range m.Ranks {
				m.Ranks[i].CPUs, m.Apps[i].PMIOffer = cpus[:1], test.offer
			}
		}, scripts...)
		k.conn.Send(&wire.Start{})
		for range scripts {
			receive[*wire.Exited](k)
		}
		for rank := range scripts {
			if k.out[rank] != test.want {
				t.Errorf("%+v: rank %d has a slack of %q ns", test, rank, k.out[rank])
			}
		}
		k.bye()
	}
}

// threadMasks returns the distinct CPU masks of this process's threads.
func threadMasks(t *testing.T) string {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatal("no threads", err)
	}
	var masks []string
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // the thread may be gone
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Cpus_allowed_list:") {
				masks = append(masks, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(masks)
	return strings.Join(slices.Compact(masks), "; ")
}

// A rank that cannot be bound to its CPUs does not start (placement.md 7.7). The other ranks may.
func TestARankWithoutItsCPUsDoesNotStart(t *testing.T) {
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Ranks[0].CPUs = []int{60000, 60001}
		m.Ranks[1].CPUs = append(usable(t)[:1:1], 60000) // the kernel ignores CPUs that it does not know
	}, "exit 1", "grep Cpus_allowed_list /proc/self/status")
	k.conn.Send(&wire.Start{})
	m := receive[*wire.Started](k)
	if m.Rank != 0 || m.Code != job.ExitInternal || m.Err != "cannot bind the rank to CPUs 60000-60001: invalid argument" || !strings.Contains(m.Hint, "--no-pin") {
		t.Errorf("%+v", m)
	}
	if exit := receive[*wire.Exited](k).Exit; exit.Rank != 1 || exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", usable(t)[0]); k.out[1] != want {
		t.Errorf("rank 1: %q, want %q", k.out[1], want)
	}
	k.bye()
}

// A script without "#!" is started by a second fork, which is bound as well.
func TestAScriptIsBound(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("grep Cpus_allowed_list /proc/$$/status\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cpu := usable(t)[0]
	k := newTestHelper(t)
	k.prepareAs(func(m *wire.Prepare) {
		m.Apps[0].Argv = []string{script}
		m.Ranks[0].CPUs = []int{cpu}
	}, "")
	k.conn.Send(&wire.Start{})
	receive[*wire.Exited](k)
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); k.out[0] != want {
		t.Errorf("%q, want %q", k.out[0], want)
	}
	k.bye()
}
