/*
Package ledger keeps jobs of all users out of each other's way on one node, and in
line, without a daemon: by files in a directory that all share, and locks on them.

	job A (helper)            directory, sticky, mode 1777              job B (helper)
	  |                                                                      |
	  | Take: write, lock, show ---> claim-A   owner A, 0644, locked         |
	  |                              claim-A <--- locked? believe it, go round it
	  |                                                                      |
	  | Enqueue: write, lock, show > ticket-7  owner A, 0644, locked         |
	  |                              ticket-8 <------- show, lock, write :Enqueue
	  | Leave, or death of A ------> (lock gone)                             |
	  |                              inotify -------------------> Turn: my turn

A file counts as long as it is locked, and the kernel drops the lock when its holder
dies, however it dies. Only the owner of a file can lock it so, since it takes a
descriptor that may write. Of a file of somebody else nothing is believed but what its
owner may say of himself.

Two jobs do not take the same CPUs since each shows its claim first and then looks for
others: of two in conflict at least one sees the other, and steps back. The registry
lock and the gate only make that rare and fair. Anybody may hold those, so nobody waits
for them for long.

The package knows nothing of networks, helpers and plans, and keeps nothing of a job
that has ended. Other systems than Linux have the types, but no Book.
*/
package ledger

import (
	"cmp"
	"slices"

	"remshell/job"
)

// Default is the directory of the files: not one of our own below it, since in a sticky
// directory its owner, whoever came first, may remove the files of others.
const Default = "/var/tmp"

// What the files say.
type (
	Claim  = job.Claim
	Seat   = job.Seat
	Ticket = job.Ticket
)

// Use adds up what claims hold of a node, but for those that without is true of.
func Use(claims []Claim, without func(Claim) bool) job.Use {
	var u job.Use
	for _, c := range claims {
		if without != nil && without(c) {
			continue
		}
		u.Procs += len(c.Ranks)
		u.Taken = u.Taken || c.Exclusive
		for _, seat := range c.Ranks {
			if len(seat.CPUs) > 0 {
				u.Seated++
			}
			u.Busy = append(u.Busy, seat.CPUs...)
			u.BusyGPUs = append(u.BusyGPUs, seat.GPUs...)
		}
	}
	slices.Sort(u.Busy)
	u.Busy = slices.Compact(u.Busy)
	return u
}

// oldest sorts claims by age, and equally old ones by name.
func oldest(a, b Claim) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job))
}
