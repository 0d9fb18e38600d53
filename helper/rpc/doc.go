//go:build linux

// Package rpc carries requests of this node's PMI servers to mpiexec, and the replies back: fences with other nodes,
// and where the ranks of a group are. Features send their own requests through it.
//
//	a rank's goroutine          Requests, Fences             mpiexec
//	      | Peers ------------------> | RankMapRequest -------> |
//	      | <-- reply                 | <-- RankMap             |  by ID, at most maxRequests at once
//	      | Exchange ---------------> | Fence ----------------> |
//	      | <-- all blobs             | <-- Fenced              |  by fence ID
//
// All but Fences send through a Pipeline, which has the IDs and the limit. The helper's session passes replies to
// Deliver (helper/messages.go). When mpiexec is gone, Fail ends all requests that wait, and all later ones.
package rpc
