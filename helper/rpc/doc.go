//go:build linux

// Package uplink is what the PMI servers of a node have of mpiexec: the fences that reach other
// nodes, the table of names, spawns, and where the ranks of a group are.
//
//	a rank's goroutine          Questions, Fences            mpiexec
//	      | Lookup, Spawn, Peers ---> | Name, Spawn, Peers ---> |
//	      | <-- answer                | <-- Named, Spawned ...  |  by number, at most maxOpen at once
//	      | Await ------------------> | Name (Await) ---------> |
//	      |                           | <-- Posted              |  then it asks again
//	      | Fetch ------------------> | Fetch ----------------> |  by number, at most maxFetches at once
//	      | <-- answer                | <-- Fetched             |
//	      | <-- supply                | <-- Fetch               |  of another node
//	      | answer -----------------> | Fetched --------------> |
//	      | Notify -----------------> | Notify ---------------> |  by number, at most maxNotices at once
//	      | <-- told                  | <-- Notified            |
//	      | Exchange ---------------> | Fence ----------------> |
//	      | <-- all blobs             | <-- Fenced              |  by ID
//
// The reader of the connection hands the answers to Deliver and Posted. When mpiexec is gone Fail
// ends all that waits, now and later.
package rpc
