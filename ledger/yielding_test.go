package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"remshell/job"
)

// What jobs hold that give way to others is told of each, and what anybody else has beside them stays
// taken; nobody hides the jobs of others by many of his own (SV-33).
func TestYielding(t *testing.T) {
	born := time.Unix(1_000_000, 0)
	claim := func(id job.ID, uid int, age time.Duration, how job.Yielding, cpus ...int) Claim {
		c := Claim{Job: id, UID: uid, User: fmt.Sprint("u", uid), Since: born.Add(-age), Preemptible: how}
		for i, cpu := range cpus {
			c.Ranks = append(c.Ranks, job.ClaimedRank{Rank: i, CPUs: []int{cpu}})
		}
		return c
	}
	change := func(c Claim, set func(*Claim)) Claim { set(&c); return c }
	all := []Claim{
		claim("firm", 1, time.Hour, "", 0, 1),
		claim("old", 2, time.Hour, job.YieldBySuspending, 1, 2),
		claim("young", 3, time.Minute, job.YieldByRequeueing, 3),
		claim("young", 3, time.Second, job.YieldByRequeueing, 4), // what it has spawned
		claim("young", 4, time.Second, job.YieldBySuspending, 5), // another's, by the same name
		claim("junk", 5, time.Second, "whatever", 6),
		change(claim("spare", 5, 0, job.YieldBySuspending, 7), func(c *Claim) { c.Resting = job.Spare }),
		change(claim("alone", 5, 0, job.YieldBySuspending, 8), func(c *Claim) { c.Exclusive = true }),
		change(claim("granted", 5, 0, job.YieldBySuspending, 9), func(c *Claim) { c.RM = "slurm 7" }),
		change(claim("gone", 5, 0, job.YieldBySuspending, 10), func(c *Claim) { *c = c.WithoutCPUs() }),
	}
	firm, willing := Others{Mine: all}.Yielding()
	if want := []int{0, 1, 6, 7, 8, 9}; !slices.Equal(firm.Busy, want) || firm.Procs != 6 {
		t.Errorf("firm: %+v", firm)
	}
	var got []string
	for _, w := range willing {
		got = append(got, fmt.Sprint(w.Job, w.UID, w.How, w.Procs, w.Busy))
	}
	if want := []string{"old2suspend2 [1 2]", "young3requeue2 [3 4]", "young4suspend1 [5]"}; !slices.Equal(got, want) {
		t.Errorf("willing: %q", got)
	}
	if firm, willing := (Others{Mine: all[:1]}).Yielding(); willing != nil || firm.Procs != 0 {
		t.Errorf("nobody is willing: %+v, %+v", firm, willing)
	}
	var many []Claim
	for i := range 3 * mostWillingEach {
		many = append(many, claim(job.ID(fmt.Sprint("flood", i)), 6, time.Hour, job.YieldBySuspending, i))
	}
	firm, willing = Others{Mine: append(many, all[2])}.Yielding()
	if len(willing) != mostWillingEach+1 || willing[mostWillingEach].Job != "young" || firm.Procs != 2*mostWillingEach {
		t.Errorf("behind a flood: %d are firm, willing are %+v", firm.Procs, willing)
	}
	if c, err := decodeClaim("claim-x", 5, []byte(`{"file":"claim-x","job":"j","uid":5,"since":"2026-01-01T00:00:00Z","preemptible":"for ever"}`)); err != nil || c.Preemptible != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Of more jobs that give way than a node tells the first ones do, and the others count like any: nobody's flood keeps a node from
// being given up (SV-33).
func TestMoreThanANodeTells(t *testing.T) {
	mine := Claim{Job: "mine", UID: 1, Preemptible: job.YieldBySuspending, Ranks: []job.ClaimedRank{{CPUs: []int{0}}}}
	o := Others{Mine: []Claim{mine}}
	for i := range job.MaxWilling {
		o.Willing = append(o.Willing, job.Willing{Job: job.ID(fmt.Sprint("j", i)), UID: 2 + i, Procs: 1, Seated: 1, Busy: []int{1 + i}})
	}
	firm, willing := o.Yielding()
	if len(willing) != job.MaxWilling || willing[0].Job != "mine" || firm.Procs != 1 || !slices.Equal(firm.Busy, []int{job.MaxWilling}) {
		t.Errorf("%d are told, firm is %+v", len(willing), firm)
	}
}
