/*
Package ledger coordinates the jobs of all users on one node: it records claims of CPUs and keeps a queue. There is
no daemon, only files in a directory that all users share, and locks on these files.

	job A (helper)        shared directory, sticky, mode 1777           job B (helper)
	  |                                                                      |
	  | TakeClaim: write, lock, publish > remshell-HASH-1000/claim-A  0644   |
	  |        its user's directory, 0755   claim-A is locked, so it is valid <- reads
	  |                                                                      |
	  | Enqueue: write, lock, publish > remshell-HASH-1000/ticket-7           |
	  |        remshell-HASH-1001/ticket-8 <-------- publish, lock, write :Enqueue
	  | Leave, or death of A ------> (lock gone)                             |
	  |                              inotify -------------> WaitForTurn returns

To publish an entry is to give its file the name by which other processes find it. An entry is valid while its file is
locked. The kernel releases the lock when the process that holds the file dies for any reason. Only the owner of a file
can lock it in this way, since the lock needs a descriptor opened for writing. A user's entries can only be about the
user's own jobs. Each user has a directory for its entries, so that no user can fill the directory of another (rule
TRUST-14).

Two jobs do not take the same CPUs, because each first publishes its claim and then looks for claims of others. If two
claims conflict, at least one job sees the other's claim and withdraws its own. The decision lock only makes such
conflicts rare and the order fair. No user can keep the lock forever, because it is an entry like all others. Each
request publishes its own entry, and waits for a limited time for the entries published before (rule TRUST-17).

The package knows nothing about networks, helpers and plans, and keeps nothing of a job that has ended. On systems other
than Linux it has the types, but no Dir.
*/
package ledger

import (
	"cmp"
	"fmt"
	mathbits "math/bits"
	"slices"

	"remshell/idset"
	"remshell/job"
)

// Default is the default ledger directory. It is not a separate directory below /var/tmp. Such a directory would belong
// to the first user, who could remove the files of others in spite of the sticky bit.
const Default = "/var/tmp"

// Claim is the content of a file that records which CPUs a job uses. Ticket is the content of a file that
// records a job's place in the queue.
type (
	Claim  = job.Claim
	Ticket = job.Ticket
)

// OtherClaims summarizes the claims of other jobs on a node. Claims of the current user are listed one by one, because
// this job may be running inside one of these jobs. Claims of other users are only added up, so that the required
// memory does not depend on their number (rule TRUST-15).
type OtherClaims struct {
	Mine             []Claim // oldest first
	OtherUsers       job.Occupancy
	OtherUsersClaims int    // number of claims of other users
	OtherJob         job.ID // one of these jobs
}

// Occupancy returns the sum of all claims in o.
func (o OtherClaims) Occupancy() job.Occupancy { return OccupancyOf(o.Mine, nil).Union(o.OtherUsers) }

// OccupancyOf returns the sum of claims. It leaves out claims for which isIgnored returns true. If isIgnored is
// nil, it leaves out no claim.
func OccupancyOf(claims []Claim, isIgnored func(Claim) bool) job.Occupancy {
	var t claimSum
	for _, c := range claims {
		if isIgnored == nil || !isIgnored(c) {
			t.addClaim(c)
		}
	}
	return t.occupancy()
}

// A claimSum adds up claims. Its memory depends on the number of CPUs, GPUs, users and gangs (at most
// maxGangs) of the node, and not on the number of claims.
type claimSum struct {
	ranks, boundRanks int
	exclusive         bool
	busyCPUs          []uint64              // one bit per CPU
	unsharedCPUs      []uint64              // likewise, CPUs of jobs that do not share them
	gangCPUs          map[gangKey]*[]uint64 // likewise, CPUs of gangs
	otherCPUs         []uint64              // likewise, CPUs of jobs that are no gangs
	gangMemory        int64
	gpus              map[string]bool
	holders           map[int]userCPUs // use of each user, by uid
}

// A gangKey identifies a gang (a job that takes turns with others on CPUs) and the gang's party. The party says which
// slices of time belong to the gang.
type gangKey struct {
	job.Key
	party int
}

// maxGangs is the maximum number of gangs (jobs that take turns on CPUs) that a claimSum distinguishes. Claims of
// further gangs are treated as claims of jobs that are not gangs.
const maxGangs = 256

// A userCPUs contains the number of CPUs that one user has claimed on a node, and the user's oldest claim.
type userCPUs struct {
	cpus   int
	oldest Claim // the user's oldest claim, without its ranks
}

func (t *claimSum) addClaim(c Claim) {
	t.ranks += len(c.Ranks)
	t.exclusive = t.exclusive || c.Exclusive
	cpus := 0
	if c.Gang != nil {
		t.gangMemory = min(t.gangMemory+c.Gang.Memory, maxGangMemory)
	}
	bitmap := t.bitmapFor(c)
	for _, rank := range c.Ranks {
		if len(rank.CPUs) > 0 {
			t.boundRanks++
		}
		for _, cpu := range rank.CPUs {
			cpus += setBit(&t.busyCPUs, cpu)
			if !c.Shares {
				setBit(&t.unsharedCPUs, cpu)
			}
			setBit(bitmap, cpu)
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

// bitmapFor returns the bitmap in which the CPUs of a claim are recorded. Each gang has its own bitmap. All other jobs
// have a common bitmap.
func (t *claimSum) bitmapFor(c Claim) *[]uint64 {
	if c.Gang == nil {
		return &t.otherCPUs
	}
	key := gangKey{c.Key(), c.Gang.Party}
	if t.gangCPUs[key] == nil {
		if len(t.gangCPUs) == maxGangs {
			return &t.otherCPUs
		}
		if t.gangCPUs == nil {
			t.gangCPUs = make(map[gangKey]*[]uint64)
		}
		t.gangCPUs[key] = new([]uint64)
	}
	return t.gangCPUs[key]
}

// setBit sets the bit of a CPU. It returns 1 if the bit was 0 before, and 0 otherwise.
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

// bitNumbers returns the indexes of all bits that are set.
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
	u.GangMemory = t.gangMemory
	others := idset.Set(bitNumbers(t.otherCPUs))
	for key, bits := range t.gangCPUs {
		if cpus := slices.DeleteFunc(bitNumbers(*bits), others.Has); len(cpus) > 0 {
			u.GangCPUs = append(u.GangCPUs, job.GangCPUs{GangJob: job.GangJob{Job: key.Job, Party: key.party}, CPUs: cpus})
		}
	}
	slices.SortFunc(u.GangCPUs, func(a, b job.GangCPUs) int { return cmp.Or(cmp.Compare(a.Party, b.Party), cmp.Compare(a.Job, b.Job)) })
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

// nameOrUID returns the user's name, or "uid N" if the name is empty.
func nameOrUID(name string, uid int) string { return cmp.Or(name, fmt.Sprint("uid ", uid)) }

// compareAge orders claims by age, the oldest first, and claims of equal age by job ID.
func compareAge(a, d Claim) int {
	return cmp.Or(a.Since.Compare(d.Since), cmp.Compare(a.Job, d.Job))
}
