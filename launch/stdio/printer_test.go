package stdio

import (
	"reflect"
	"testing"

	"remshell/wire"
)

// The ends of ranks that come one after the other wait as one piece, between the output that
// came before them and that which came behind.
func TestEndsInARowWaitAsOnePiece(t *testing.T) {
	p := &Printer{filled: make(chan struct{}, 1)} // nobody takes what waits
	const ranks = 1000
	var all []int
	for rank := range ranks {
		p.putEnd(rank)
		all = append(all, rank)
	}
	data := &wire.Data{Rank: ranks, Bytes: []byte("x")}
	p.put(piece{rank: ranks, data: data})
	p.putEnd(ranks)
	p.putEnd(ranks + 1)
	want := []piece{{ends: all}, {rank: ranks, data: data}, {ends: []int{ranks, ranks + 1}}}
	if !reflect.DeepEqual(p.queue, want) {
		t.Errorf("%d pieces wait: %+v", len(p.queue), p.queue)
	}
}
