//go:build linux

// Package rpc carries requests of this node's PMI servers to mpiexec, and the replies back: fences with other nodes,
// the table of published names, spawns, and where the ranks of a group are.
//
//	a rank's goroutine          Requests, Fences             mpiexec
//	      | Lookup, Spawn, Peers ---> | NameRequest, ... -----> |
//	      | <-- reply                 | <-- NameReply, Spawned  |  by ID, at most maxRequests at once
//	      | Await ------------------> | NameRequest (wait) ---> |
//	      |                           | <-- NamePublished       |  then it looks up again
//	      | Fetch ------------------> | Fetch ----------------> |  by ID, at most maxFetches at once
//	      | <-- reply                 | <-- Fetched             |
//	      | <-- supply                | <-- Fetch               |  of another node
//	      | data -------------------> | Fetched --------------> |
//	      | Notify -----------------> | Notify ---------------> |  by ID, at most maxNotices at once
//	      | <-- passed on             | <-- Notified            |
//	      | Exchange ---------------> | Fence ----------------> |
//	      | <-- all blobs             | <-- Fenced              |  by fence ID
//
// All but Fences send through a Pipeline, which has the IDs and the limit. The reader of the connection passes replies
// to Deliver and NamePosted. When mpiexec is gone, Fail ends all requests that wait, and all later ones.
package rpc
