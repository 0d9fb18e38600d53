package wire_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remshell/job"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// Whatever users write into a ledger, a helper can send the valid entries.
func TestLedgerListedTruncate(t *testing.T) {
	good := job.Claim{Job: "good", Nodes: 1, Size: 1, Since: time.Unix(1, 0), Ranks: []job.ClaimedRank{{CPUs: []int{3}}}}
	change := func(f func(*job.Claim)) job.Claim {
		c := good
		f(&c)
		return c
	}
	m := &wire.LedgerListed{Tickets: []job.Ticket{{Number: 1, Job: "ticket"}, {Number: -1}, {Number: 2, Size: -7}}, Claims: []job.Claim{
		good,
		change(func(c *job.Claim) { c.UID = -1 }),
		change(func(c *job.Claim) { c.Nodes = -5 }),
		change(func(c *job.Claim) { c.Since = time.Unix(-1, 0) }),
		change(func(c *job.Claim) { c.Ranks = []job.ClaimedRank{{CPUs: []int{1 << 40}}} }),
		change(func(c *job.Claim) { c.Ranks = []job.ClaimedRank{{CPUs: []int{1, 1}}} }),
		change(func(c *job.Claim) { c.Ranks = []job.ClaimedRank{{GPUs: []string{strings.Repeat("x", 65)}}} }),
		change(func(c *job.Claim) { c.Ranks = make([]job.ClaimedRank, wire.MaxClaimedRanks+1) }),
		change(func(c *job.Claim) { c.Command = strings.Repeat("\xff", 1<<20) }), // is truncated
	}}
	m.Truncate(0)
	if len(m.Claims) != 2 || len(m.Tickets) != 1 {
		t.Errorf("%d claims and %d tickets are left", len(m.Claims), len(m.Tickets))
	}
	arrives(t, m)

	m = &wire.LedgerListed{Claims: slices.Repeat([]job.Claim{change(func(c *job.Claim) { c.Command = strings.Repeat("x", 3000) })}, 3000)}
	m.Truncate(0)
	if len(m.Claims) < 1000 {
		t.Errorf("%d claims are left", len(m.Claims))
	}
	arrives(t, m)
	m = &wire.LedgerListed{Claims: slices.Repeat([]job.Claim{good}, 3000), Tickets: make([]job.Ticket, 3000)}
	m.Truncate(0)
	if len(m.Claims)+len(m.Tickets) != wire.MaxEntries {
		t.Errorf("%d claims and %d tickets are left", len(m.Claims), len(m.Tickets))
	}
	arrives(t, m)
}

// A user with many or large entries does not crowd out those of other users.
func TestLedgerListedFairShare(t *testing.T) {
	const honest, enemy = 1000, 2000
	hisClaim := func(c job.Claim) job.Claim {
		c.Job, c.UID, c.Nodes, c.Size, c.Since = "his", enemy, 1, 1, time.Unix(1, 0)
		return c
	}
	long := strings.Repeat("x", wire.MaxSentence)
	cpus := make([]int, 4096)
	for i := range cpus {
		cpus[i] = i
	}
	for what, his := range map[string][]job.Claim{
		"many":         slices.Repeat([]job.Claim{hisClaim(job.Claim{})}, 4500),
		"long words":   slices.Repeat([]job.Claim{hisClaim(job.Claim{Command: long})}, 1100),
		"many ranks":   slices.Repeat([]job.Claim{hisClaim(job.Claim{Ranks: make([]job.ClaimedRank, 4000)})}, 20),
		"many CPUs":    slices.Repeat([]job.Claim{hisClaim(job.Claim{Ranks: []job.ClaimedRank{{CPUs: cpus}}})}, 100),
		"nothing more": nil,
	} {
		m := &wire.LedgerListed{Claims: his, States: slices.Repeat([]job.RankState{{Phase: "running"}}, 5000)}
		for i := range 100 {
			m.Claims = append(m.Claims, job.Claim{Job: "ours", UID: honest, Nodes: 1, Size: 1, Since: time.Unix(2, 0), Ranks: []job.ClaimedRank{{Rank: i, CPUs: []int{i}}}})
			m.Tickets = append(m.Tickets, job.Ticket{Job: "ours", UID: honest, Number: int64(i + 1), Since: time.Unix(2, 0)})
		}
		cut := m.Truncate(0)
		claims := slices.IndexFunc(m.Claims, func(c job.Claim) bool { return c.UID == honest })
		if left := len(m.Claims) - claims; left != 100 || len(m.Tickets) != 100 || len(m.States) != 5000 || his != nil && claims == 0 {
			t.Errorf("%s: %d claims, %d tickets, %d states are left of the honest user, %d of the other", what, left, len(m.Tickets), len(m.States), claims)
		}
		if want := []int{enemy}; !slices.Equal(cut, want) && his != nil || his == nil && cut != nil {
			t.Errorf("%s: entries of %v are left out", what, cut)
		}
		arrives(t, m)
		m.Truncate(64 << 10)
		claims = slices.IndexFunc(m.Claims, func(c job.Claim) bool { return c.UID == honest })
		if size, left := len(wire.Encode(m)), len(m.Claims)-claims; size > 64<<10 || left != 100 || len(m.Tickets) != 100 {
			t.Errorf("%s: %d bytes for 64 KiB; %d claims and %d tickets are left of the honest user", what, size, left, len(m.Tickets))
		}
		arrives(t, m)
	}
}

func TestSurveyedTruncate(t *testing.T) {
	m := &wire.Surveyed{Occupancy: job.Occupancy{Ranks: 1 << 40, BoundRanks: 1 << 40, BusyCPUs: []int{-3, 5, 5, 65535, 65536, 1 << 50},
		BusyGPUs: []string{"a", "a", strings.Repeat("x", 65)}}}
	m.Truncate()
	if !slices.Equal(m.Occupancy.BusyCPUs, []int{5, 65535}) || !slices.Equal(m.Occupancy.BusyGPUs, []string{"a"}) || m.Occupancy.Ranks != 1e6 {
		t.Errorf("left: %+v", m.Occupancy)
	}
	arrives(t, m)
}

// Gangs with very many CPUs are left out, and their CPUs stay busy.
func TestSurveyedTruncatesGangs(t *testing.T) {
	cpus := make([]int, 1<<16)
	for i := range cpus {
		cpus[i] = i
	}
	use := job.Occupancy{BusyCPUs: cpus}
	for i := range 16 {
		use.GangCPUs = append(use.GangCPUs, job.GangCPUs{GangJob: job.GangJob{Job: "eve", Party: i}, CPUs: cpus}, job.GangCPUs{GangJob: job.GangJob{Job: "ann", Party: i}, CPUs: []int{1}})
	}
	m := &wire.Surveyed{Occupancy: use, OutsideOccupancy: use}
	m.Truncate()
	if len(wire.Encode(m)) >= 1<<20 || len(m.Occupancy.BusyCPUs) != 1<<16 || len(m.Occupancy.GangCPUs) != 16 {
		t.Errorf("%d bytes, %d busy CPUs, %d gangs", len(wire.Encode(m)), len(m.Occupancy.BusyCPUs), len(m.Occupancy.GangCPUs))
	}
	arrives(t, m)
}

func arrives(t *testing.T, m wire.Message) {
	t.Helper()
	if _, err, _ := wiretest.Receive(wire.Encode(m), wire.Launcher); err != nil {
		t.Errorf("%T: %v", m, err)
	}
}
