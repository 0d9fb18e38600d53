/*
Package ledger keeps jobs of all users out of each other's way on one node, and in
line, without a daemon: by files in a directory that all share, and locks on them.

	job A (helper)        directory of all, sticky, mode 1777           job B (helper)
	  |                                                                      |
	  | Take: write, lock, show ---> remshell-HASH-1000/claim-A  0644, locked |
	  |        his own directory, 0755   claim-A <- locked? believe it, go round it
	  |                                                                      |
	  | Enqueue: write, lock, show > remshell-HASH-1000/ticket-7              |
	  |        remshell-HASH-1001/ticket-8 <----------- show, lock, write :Enqueue
	  | Leave, or death of A ------> (lock gone)                             |
	  |                              inotify -------------------> Turn: my turn

An entry counts as long as it is locked, and the kernel drops the lock when its holder
dies, however it dies. Only the owner of a file can lock it so, since it takes a
descriptor that may write. Of the entries of somebody else nothing is believed but what he
may say of himself, and they are in a directory of his own (a shelf), so that he fills no
other with what he makes (TRUST-14).

Two jobs do not take the same CPUs since each shows its claim first and then looks for
others: of two in conflict at least one sees the other, and steps back. The gate only
makes that rare and fair. It is no lock that somebody could keep, but an entry like all
others: each shows one of his own, and waits for those that were there before, for a while
(TRUST-17).

The package knows nothing of networks, helpers and plans, and keeps nothing of a job
that has ended. Other systems than Linux have the types, but no Dir.
*/
package ledger

import (
	"cmp"
	"fmt"
	mathbits "math/bits"
	"slices"

	"remshell/job"
)

// Default is the directory of the shelves: not one of our own below it, since in a sticky
// directory its owner, whoever came first, may remove the files of others.
const Default = "/var/tmp"

// What the files say.
type (
	Claim  = job.Claim
	Ticket = job.Ticket
)

// OtherClaims is what living claims hold of a node: those of our own user one by one, as we may
// be inside of one of his jobs, and of all other users what they hold together and never a
// list of what was read (TRUST-15).
type OtherClaims struct {
	Mine             []Claim // oldest first
	OtherUsers       job.Occupancy
	OtherUsersClaims int    // claims of other users
	OtherJob         job.ID // of them
}

// Occupancy is what all of them hold together.
func (o OtherClaims) Occupancy() job.Occupancy { return OccupancyOf(o.Mine, nil).Union(o.OtherUsers) }

// OccupancyOf adds up what claims hold of a node, but for those that without is true of.
func OccupancyOf(claims []Claim, without func(Claim) bool) job.Occupancy {
	var t claimSum
	for _, c := range claims {
		if without == nil || !without(c) {
			t.addClaim(c)
		}
	}
	return t.occupancy()
}

// A claimSum adds up claims: sets, which grow no further than a node has CPUs and GPUs.
type claimSum struct {
	ranks, boundRanks int
	exclusive         bool
	busyCPUs          []uint64 // a bit for each CPU
	unsharedCPUs      []uint64 // likewise, of jobs that do not share
	gpus              map[string]bool
	holders           map[int]userCPUs // who holds how much, by uid
}

// A userCPUs is what one user holds of a node.
type userCPUs struct {
	cpus   int
	oldest Claim // the oldest of his claims, without its ranks
}

func (t *claimSum) addClaim(c Claim) {
	t.ranks += len(c.Ranks)
	t.exclusive = t.exclusive || c.Exclusive
	cpus := 0
	for _, rank := range c.Ranks {
		if len(rank.CPUs) > 0 {
			t.boundRanks++
		}
		for _, cpu := range rank.CPUs {
			cpus += setBit(&t.busyCPUs, cpu)
			if !c.Shares {
				setBit(&t.unsharedCPUs, cpu)
			}
		}
		for _, address := range rank.GPUs {
			t.addGPU(address)
		}
	}
	h, known := t.holders[c.UID]
	if t.holders == nil {
		t.holders = make(map[int]userCPUs)
	}
	if !known || compareAge(c, h.oldest) < 0 {
		h.oldest = c
		h.oldest.User, h.oldest.Ranks = nameOrUID(c.User, c.UID), nil
	}
	h.cpus += cpus
	t.holders[c.UID] = h
}

// setBit sets the bit of a CPU, and returns 1 if it was not set before.
func setBit(bits *[]uint64, cpu int) int {
	word, bit := cpu/64, uint64(1)<<(cpu%64)
	if word >= len(*bits) {
		*bits = append(*bits, make([]uint64, word+1-len(*bits))...)
	}
	if (*bits)[word]&bit != 0 {
		return 0
	}
	(*bits)[word] |= bit
	return 1
}

// bitNumbers lists the bits that are set.
func bitNumbers(bits []uint64) (set []int) {
	for word, left := range bits {
		for ; left != 0; left &= left - 1 {
			set = append(set, word*64+mathbits.TrailingZeros64(left))
		}
	}
	return set
}

func (t *claimSum) addGPU(address string) {
	if t.gpus == nil {
		t.gpus = make(map[string]bool)
	}
	if len(t.gpus) < maxGPUs {
		t.gpus[address] = true
	}
}

func (t *claimSum) occupancy() job.Occupancy {
	u := job.Occupancy{Ranks: t.ranks, BoundRanks: t.boundRanks, ExclusivelyHeld: t.exclusive}
	u.BusyCPUs = bitNumbers(t.busyCPUs)
	shared := slices.Clone(t.busyCPUs)
	for word, held := range t.unsharedCPUs {
		shared[word] &^= held
	}
	u.SharedCPUs = bitNumbers(shared)
	for address := range t.gpus {
		u.BusyGPUs = append(u.BusyGPUs, address)
	}
	slices.Sort(u.BusyGPUs)
	most := userCPUs{cpus: -1}
	for _, h := range t.holders {
		if order := cmp.Or(cmp.Compare(h.cpus, most.cpus), compareAge(most.oldest, h.oldest)); order > 0 {
			most = h
		}
	}
	first := most.oldest
	u.TopUser, u.TopUID, u.TopJob, u.TopPID, u.Since = first.User, first.UID, first.Job, first.PID, first.Since
	u.Movable = first.Movable
	return u
}

// nameOrUID is what to call a user whose name may not be known.
func nameOrUID(name string, uid int) string { return cmp.Or(name, fmt.Sprint("uid ", uid)) }

// compareAge sorts claims by age, and equally old ones by name.
func compareAge(a, d Claim) int {
	return cmp.Or(a.Since.Compare(d.Since), cmp.Compare(a.Job, d.Job))
}
