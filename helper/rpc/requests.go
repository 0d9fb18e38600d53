//go:build linux

package rpc

import (
	"context"
	"errors"

	"remshell/wire"
)

// Requests sends requests of this node's PMI servers to mpiexec, except fences, which type Fences sends.
type Requests struct{ Pipeline[wire.Message] }

// NewRequests returns a Requests. send sends a message to mpiexec.
func NewRequests(send func(wire.Message) error) *Requests {
	return &Requests{Pipeline[wire.Message]{maxInFlight: maxRequests, send: send}}
}

// maxRequests is how many requests of a node mpiexec handles at a time (rule TRUST-4). The helper queues
// further requests.
const maxRequests = 64

// errWrongReply is returned if mpiexec sends a reply of the wrong type.
var errWrongReply = errors.New("mpiexec sent a reply of the wrong type")

// Call does the same as Pipeline.Call, with specific types for the request and its reply.
func Call[Req wire.Request[Rep], Rep any](ctx context.Context, q *Requests, newRequest func(id int) Req, handleLate func(Rep)) (reply Rep, err error) {
	m, err := q.Call(ctx, func(id int) wire.Message { return newRequest(id) }, func(m wire.Message) {
		if reply, ok := m.(Rep); ok && handleLate != nil {
			handleLate(reply)
		}
	})
	if err != nil {
		return reply, err
	}
	reply, ok := m.(Rep)
	if !ok {
		return reply, errWrongReply
	}
	return reply, nil
}

// Peers returns the node of each rank of the group that m describes. It asks mpiexec, unless all ranks are on this
// node.
func (q *Requests) Peers(ctx context.Context, m *wire.Prepare) (*wire.RankMap, error) {
	if m.Group.NodeCount == 1 {
		return &wire.RankMap{Nodes: []string{m.Node.Name}, NodeOfRank: make([]int, m.Group.Size), EarlierRanks: []int{m.Node.EarlierRanks}}, nil
	}
	return q.PeersOfGroup(ctx, m.Group.Name)
}

// PeersOfGroup returns the node of each rank of a group, which may be any group of the job. For a group that has ended,
// it returns an empty map.
func (q *Requests) PeersOfGroup(ctx context.Context, group string) (*wire.RankMap, error) {
	return Call(ctx, q, func(id int) *wire.RankMapRequest { return &wire.RankMapRequest{ID: id, Group: group} }, nil)
}
