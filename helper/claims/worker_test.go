//go:build linux

package claims

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// A launch from inside a rank may use the claims of the jobs around it, and no others.
func TestRelatedClaims(t *testing.T) {
	claims := []job.Claim{{Job: "outer"}, {Job: "middle", ParentJob: "outer"}, {Job: "other"}, {Job: "sister", ParentJob: "outer"},
		{Job: "loop", ParentJob: "loop"}, {Job: "his", UID: 1}}
	for inside, want := range map[job.ID]string{
		"":       "outer middle other sister loop his",
		"outer":  "middle other sister loop his",
		"middle": "other sister loop his",
		"loop":   "outer middle other sister his",
		"gone":   "outer middle other sister loop his",
		"his":    "outer middle other sister loop his", // as any user could claim
	} {
		var left []string
		_, others := splitEnclosingJobs(claims, inside, 0)
		for _, c := range others {
			left = append(left, string(c.Job))
		}
		if got := strings.Join(left, " "); got != want {
			t.Errorf("inside %q: %s, want %s", inside, got, want)
		}
	}
}

func TestClaimsCover(t *testing.T) {
	two := []job.Claim{{Ranks: []job.ClaimedRank{{CPUs: []int{0, 4}}}}, {Ranks: []job.ClaimedRank{{CPUs: []int{1}}, {}}}}
	for _, test := range []struct {
		claims []job.Claim
		cpus   []int
		want   bool
	}{
		{two, []int{0, 1}, true},
		{two, []int{0, 1, 4}, true},
		{two, []int{0, 1, 5}, false},
		{[]job.Claim{{}}, []int{0}, false},
		{[]job.Claim{{Exclusive: true}}, []int{0}, true},
	} {
		if got := claimsCover(test.claims, test.cpus); got != test.want {
			t.Errorf("%+v hold %v: %v", test.claims, test.cpus, got)
		}
	}
}

// Launches of one batch job see each other's claims. Claims outside of it, and those of other users who claim
// to be inside, are reported separately (RM-20).
func TestSplitByBatchJob(t *testing.T) {
	rank := func(cpu int) []job.ClaimedRank { return []job.ClaimedRank{{CPUs: []int{cpu}}} }
	all := ledger.OtherClaims{
		Mine:       []job.Claim{{Job: "a", RM: "slurm 7", Ranks: rank(0)}, {Job: "b", Ranks: rank(1)}, {Job: "c", RM: "slurm 8", Ranks: rank(2)}},
		OtherUsers: job.Occupancy{BusyCPUs: []int{3}, Ranks: 1, BoundRanks: 1, TopUser: "eve"}, OtherUsersClaims: 1, OtherJob: "e",
	}
	same, beyond := splitByBatchJob(all, "slurm 7")
	if a, b := same.Occupancy(), beyond.Occupancy(); !slices.Equal(a.BusyCPUs, []int{0}) || !slices.Equal(b.BusyCPUs, []int{1, 2, 3}) || len(all.Mine) != 3 {
		t.Errorf("the same: %v, beyond: %v", a.BusyCPUs, b.BusyCPUs)
	}
}

// An mpiexec that is stopped while it has the decision lock does not delay others for long.
func TestDecisionLockExpires(t *testing.T) {
	here, there := net.Pipe()
	said := wire.NewConn(here, wire.Launcher)
	defer said.Abandon()
	dir := t.TempDir()
	root := os.DirFS("/")
	w := New(root, nil, wire.NewConn(there, wire.Helper).Send, nil)
	defer w.Close()
	w.lockTimeout = 30 * time.Millisecond
	w.HandleMessage(&wire.LockDecision{Ledger: dir})
	if m, err := said.Recv(); err != nil || m.(*wire.DecisionLocked).Notice != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	other, err := ledger.Open(dir, probe.Identity(root))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	gate, err := other.LockDecision(t.Context())
	if err != nil || gate.Warning != nil {
		t.Fatalf("%v, %v", err, gate.Warning)
	}
	gate.Unlock()
	w.HandleMessage(&wire.UnlockDecision{}) // too late
	w.HandleMessage(&wire.ListLedger{Ledger: dir})
	if m, err := said.Recv(); err != nil || m.(*wire.LedgerListed).Err != "" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestConflict(t *testing.T) {
	claimed := func(cpus ...int) (ranks []job.ClaimedRank) {
		for i, cpu := range cpus {
			ranks = append(ranks, job.ClaimedRank{Rank: i, CPUs: []int{cpu}})
		}
		return ranks
	}
	card := func(cpu int, address string) []job.ClaimedRank {
		return []job.ClaimedRank{{CPUs: []int{cpu}, GPUs: []string{address}}}
	}
	two := job.Claim{Job: "b", Ranks: claimed(2, 3)}
	for _, test := range []struct {
		name   string
		m      wire.Prepare
		mine   job.Claim
		others []job.Claim
		want   string
	}{
		{"nobody else", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(0), Exclusive: true}, nil, ""},
		{"other CPUs", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(0, 1)}, []job.Claim{two}, ""},
		{"a CPU of another", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(1, 2)}, []job.Claim{two}, "CPU 2 was taken by another job"},
		{"a try-out", wire.Prepare{Claim: wire.Claim{MaxProcs: -1, IgnoreOthers: true}}, job.Claim{Ranks: claimed(1, 2)}, []job.Claim{two}, ""},
		{"both share", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Shares: true, Ranks: claimed(2)}, []job.Claim{{Job: "b", Shares: true, Ranks: claimed(2)}}, ""},
		{"the other shares", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(2)}, []job.Claim{{Job: "b", Shares: true, Ranks: claimed(2)}}, "CPU 2 was taken by another job"},
		{"only this one shares", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Shares: true, Ranks: claimed(2)}, []job.Claim{two}, "CPU 2 was taken by another job"},
		{"one of two others shares", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Shares: true, Ranks: claimed(2)}, []job.Claim{two, {Job: "c", Shares: true, Ranks: claimed(2)}}, "CPU 2 was taken by another job"},
		{"alone", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(0), Exclusive: true}, []job.Claim{two}, "the host is not idle: job b runs there"},
		{"another is alone", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: claimed(0)}, []job.Claim{{Job: "b", Exclusive: true}}, "another job uses the host exclusively"},
		{"a try-out where another is alone", wire.Prepare{Claim: wire.Claim{MaxProcs: -1, IgnoreOthers: true}}, job.Claim{}, []job.Claim{{Job: "b", Exclusive: true}}, "another job uses the host exclusively"},
		{"room below maxproc", wire.Prepare{Claim: wire.Claim{MaxProcs: 4}}, job.Claim{Ranks: claimed(0, 1)}, []job.Claim{two}, ""},
		{"over maxproc", wire.Prepare{Claim: wire.Claim{MaxProcs: 3}}, job.Claim{Ranks: claimed(0, 1)}, []job.Claim{two}, "the host already runs 2 of at most 3 processes"},
		{"a GPU of another", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: card(0, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:07:00.0")}},
			"GPU 0000:07:00.0 was taken by another job"},
		{"other GPUs", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Ranks: card(0, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:0f:00.0")}}, ""},
		{"a try-out with GPUs", wire.Prepare{Claim: wire.Claim{MaxProcs: -1, IgnoreOthers: true}}, job.Claim{Ranks: card(3, "0000:07:00.0")}, []job.Claim{{Job: "b", Ranks: card(3, "0000:07:00.0")}},
			"GPU 0000:07:00.0 was taken by another job"},
		{"granted by a batch system", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{RM: "slurm 7", Ranks: claimed(2)}, []job.Claim{two, {Job: "c", RM: "slurm 8", Exclusive: true}}, ""},
		{"granted to both", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{RM: "slurm 7", Ranks: claimed(2)}, []job.Claim{{Job: "b", RM: "slurm 7", Ranks: claimed(2)}}, "CPU 2 was taken by another job"},
		{"what it had before", wire.Prepare{Claim: wire.Claim{MaxProcs: 2}}, job.Claim{Job: "b", Ranks: claimed(2, 3)}, []job.Claim{{Job: "b", IdleReason: job.IdleRestarting, Ranks: claimed(2, 3)}}, ""},
		{"what another had before", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{Job: "a", Ranks: claimed(2)}, []job.Claim{{Job: "b", IdleReason: job.IdleRestarting, Ranks: claimed(2, 3)}}, "CPU 2 was taken by another job"},
		{"its own outer job", wire.Prepare{Claim: wire.Claim{MaxProcs: -1}}, job.Claim{ParentJob: "b", Ranks: claimed(2)}, []job.Claim{two}, ""},
	} {
		got := ""
		if err := findConflict(test.m.Claim, test.mine, ledger.OtherClaims{Mine: slices.Clone(test.others)}); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// The claims of a job pass from one attempt to the next without a moment in which they are free, and end
// with the last attempt (survive.md SV-2).
func TestClaimsCarryOver(t *testing.T) {
	dir, root := t.TempDir(), os.DirFS("/")
	book, err := ledger.Open(dir, probe.Identity(root))
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	seen := func() (claims []string) {
		all, err := book.Claims()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			claims = append(claims, fmt.Sprintf("%s %s %v", c.Job, c.IdleReason, c.Ranks))
		}
		slices.Sort(claims)
		return claims
	}
	prepare := func(id job.ID, group string, rank, cpu int) *wire.Prepare {
		return &wire.Prepare{Job: id, Group: wire.Group{Name: group, First: rank}, Ranks: []job.RankPlan{{RankResources: &job.RankResources{ClaimedCPUs: []int{cpu}}}},
			Claim: wire.Claim{Entry: job.Claim{Job: id, Since: time.Now()}, Ledger: dir, MaxProcs: -1}}
	}
	claim := func(w *Worker, m *wire.Prepare) ClaimResult {
		answer := make(chan ClaimResult, 1)
		w.Claim(m, func(a ClaimResult) { answer <- a })
		return <-answer
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if got := seen(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	silent := func(wire.Message) error { return nil }
	first, other := New(root, nil, silent, nil), New(root, nil, silent, nil)
	defer other.Close()
	claim(first, prepare("j", "j", 0, 3))
	claim(first, prepare("j", "j.1", 1, 4))
	expect("two groups run", "j  [{0 [3] []}]", "j  [{1 [4] []}]")
	resting := make(chan CarriedClaims, 1)
	first.CarryOver(func(r CarriedClaims) { resting <- r })
	rested := <-resting
	first.Close()
	both := []string{"j restarting [{0 [3] []}]", "j restarting [{1 [4] []}]"}
	expect("between two attempts", both...)
	if a := claim(other, prepare("other", "other", 0, 3)); a.Conflict != "CPU 3 was taken by another job" {
		t.Errorf("another job gets %+v", a)
	}
	second := New(root, nil, silent, rested)
	if a := claim(second, prepare("j", "j", 0, 3)); a.Conflict != "" || a.Notice != "" {
		t.Errorf("the next attempt gets %+v", a)
	}
	expect("it is planned", append([]string{"j  [{0 [3] []}]"}, both...)...)
	released := make(chan bool)
	second.Release("j", func() { close(released) })
	<-released
	expect("and planned anew", both...)
	claim(second, prepare("j", "j", 0, 4))
	second.ReleaseCarried()
	second.Release("nobody", func() { resting <- nil }) // after the tasks before
	<-resting
	expect("it has started", "j  [{0 [4] []}]")
	second.CarryOver(func(r CarriedClaims) { resting <- r })
	third := New(root, nil, silent, <-resting)
	second.Close()
	expect("between the next two", "j restarting [{0 [4] []}]")
	third.Close()
	expect("it is over")
	spare := prepare("j", "spare", 2, 5)
	spare.Claim.Entry.IdleReason = job.IdleStandby
	fourth := New(root, nil, silent, nil)
	claim(fourth, spare)
	expect("a spare", "j spare [{2 [5] []}]")
	fourth.CarryOver(func(r CarriedClaims) { resting <- r })
	fifth := New(root, nil, silent, <-resting)
	fourth.Close()
	expect("a spare between two attempts", "j spare [{2 [5] []}]")
	claim(fifth, spare)
	expect("a spare once more", "j spare [{2 [5] []}]")
	claim(fifth, prepare("j", "j", 0, 5))
	fifth.ReleaseCarried()
	fifth.Release("nobody", func() { resting <- nil })
	<-resting
	expect("a spare that is used", "j  [{0 [5] []}]")
	fifth.Close()
}

// The file of a node's administrator is obeyed whatever mpiexec sends. A file that
// other users could have written allows nothing.
func TestNodeFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, whose file it is")
	}
	clean := func(*testing.T, string) error { return nil }
	for _, test := range []struct {
		name  string
		text  string
		spoil func(t *testing.T, file string) error
		ranks int
		want  string // why nothing may run; empty: ranks may run
		most  int    // limit of ranks for the plan
	}{
		{"no limits", "", clean, 9, "", -1},
		{"no jobs", `runJobs = "no"`, clean, 1, "the host does not allow jobs (FILE)", -1},
		{"room", "maxproc = 2", clean, 2, "", 2},
		{"no room", "maxproc = 2", clean, 3, "the host may run at most 2 processes at a time (FILE)", 2},
		{"a fault", "\nmaxproc = \"x\"", clean, 1, `FILE:2: maxproc: "x" is neither a number nor "any"`, -1},
		{"another's file", "", func(_ *testing.T, file string) error { return os.Chown(file, 5, 5) }, 1, "FILE: the file belongs to uid 5, but must belong to root", -1},
		{"open to others", "", func(_ *testing.T, file string) error { return os.Chmod(file, 0o666) }, 1, "FILE: mode 0666: users other than root may write to it", -1},
		{"open to a group", "", func(_ *testing.T, file string) error { return os.Chmod(file, 0o664) }, 1, "FILE: mode 0664: users other than root may write to it", -1},
		{"a pipe", "", func(_ *testing.T, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o644)) }, 1, "FILE: the file is not a regular file", -1},
		{"none", "", func(_ *testing.T, file string) error { return os.Remove(file) }, 9, "", -1},
	} {
		file := filepath.Join(t.TempDir(), "node.toml")
		if err := errors.Join(os.WriteFile(file, []byte(test.text), 0o644), test.spoil(t, file)); err != nil {
			t.Fatal(err)
		}
		c := &Worker{adminFiles: probe.AdminFiles{Node: file}}
		m := &wire.Prepare{Claim: wire.Claim{MaxProcs: -1}, Ranks: make([]job.RankPlan, test.ranks)}
		barred := c.checkNodeRules(m)
		if want := strings.ReplaceAll(test.want, "FILE", file); !strings.HasSuffix(barred, want) || (barred == "") != (want == "") {
			t.Errorf("%s: %q, want %q", test.name, barred, want)
		}
		if most := c.adminFiles.Rules().MaxRanks; most != test.most || barred == "" && m.Claim.MaxProcs != test.most {
			t.Errorf("%s: at most %d, in the claim %d; want %d", test.name, most, m.Claim.MaxProcs, test.most)
		}
	}
}
