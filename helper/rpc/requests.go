//go:build linux

package rpc

import (
	"context"
	"errors"
	"strings"

	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// Requests sends requests of this node's PMI servers to mpiexec. Fences are not among them (fences.go).
type Requests struct{ Pipeline[wire.Message] }

// NewRequests returns Requests that send messages to mpiexec by send.
func NewRequests(send func(wire.Message) error) *Requests {
	return &Requests{Pipeline[wire.Message]{maxInFlight: maxRequests, send: send}}
}

// maxRequests is how many requests of a node mpiexec handles at once (TRUST-4). Further ones wait here.
const maxRequests = 64

// errTooLarge is returned for a request that exceeds a bound.
var errTooLarge = errors.New("request too large")

// errWrongReply is returned if mpiexec sends a reply of the wrong type.
var errWrongReply = errors.New("mpiexec answered something else")

// Call is Pipeline.Call with the types of the request and its reply.
func Call[Req wire.Request[Rep], Rep any](ctx context.Context, q *Requests, newRequest func(id int) Req, late func(Rep)) (reply Rep, err error) {
	m, err := q.Call(ctx, func(id int) wire.Message { return newRequest(id) }, func(m wire.Message) {
		if reply, ok := m.(Rep); ok && late != nil {
			late(reply)
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

// A Spawner asks mpiexec to start more ranks. Dir returns the working directory of the rank that asks.
type Spawner struct {
	*Requests
	Dir func(rank int) string
}

// Bounds of a request besides its size. A larger request fails, and does not end the job.
const (
	maxPairs      = 1 << 12 // in one list
	maxFaultBytes = 1 << 10
)

// longestList returns the length of the longest list in a request, apart from arguments.
func longestList(r spawn.Request) int {
	most := max(len(r.Commands), len(r.Preputs))
	for _, c := range r.Commands {
		most = max(most, len(c.Info))
	}
	return most
}

// Spawn implements spawn.Spawner.
func (p Spawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	fault := ""
	if err := expandFiles(r.Commands, p.Dir(r.Rank)); err != nil {
		fault = strings.ToValidUTF8(err.Error(), "?")
		fault = strings.ToValidUTF8(fault[:min(len(fault), maxFaultBytes)], "")
	}
	if longestList(r) > maxPairs || wire.TooLarge(&wire.Spawn{Request: r, Fault: fault}) {
		return "", nil, errTooLarge
	}
	answer, err := Call(ctx, p.Requests, func(id int) *wire.Spawn { return &wire.Spawn{ID: id, Request: r, Fault: fault} }, nil)
	switch {
	case err != nil:
		return "", nil, err
	case answer.Full:
		return "", nil, spawn.NoSlots(answer.Err)
	case answer.Err != "":
		return "", nil, errors.New(answer.Err)
	}
	return answer.Group, answer.Codes, nil
}

// Peers returns where the ranks of a group are. It asks mpiexec, unless all are on this node.
func (q *Requests) Peers(ctx context.Context, m *wire.Prepare) (*wire.RankMap, error) {
	if m.Group.NodeCount == 1 {
		return &wire.RankMap{Nodes: []string{m.Node.Name}, NodeOfRank: make([]int, m.Group.Size), EarlierRanks: []int{m.Node.EarlierRanks}}, nil
	}
	return q.PeersOfGroup(ctx, m.Group.Name)
}

// PeersOfGroup is Peers for any group of the job. It returns an empty map for a group that is over.
func (q *Requests) PeersOfGroup(ctx context.Context, group string) (*wire.RankMap, error) {
	return Call(ctx, q, func(id int) *wire.RankMapRequest { return &wire.RankMapRequest{ID: id, Group: group} }, nil)
}
