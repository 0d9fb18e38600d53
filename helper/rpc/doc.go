//go:build linux

// Package rpc carries requests of this node's PMI servers to mpiexec, and the replies back. The requests are fences
// with other nodes, and questions about which nodes run the ranks of a group. Features send their own requests through
// the package.
//
//	a rank's goroutine          Requests, Fences             mpiexec
//	      | Peers ------------------> | RankMapRequest -------> |
//	      | <-- reply                 | <-- RankMap             |  by ID, at most maxRequests at once
//	      | Exchange ---------------> | Fence ----------------> |
//	      | <-- all blobs             | <-- Fenced              |  by fence ID
//
// All requests but fences are sent through a Pipeline, which assigns IDs and limits the number of requests
// without a reply. The helper's session passes replies to Deliver (helper/messages.go). When the connection
// to mpiexec is lost, Fail ends all requests that wait and all later requests.
package rpc
