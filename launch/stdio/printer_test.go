package stdio

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"remshell/wire"
)

// Ends of ranks that follow each other share one queue item, between the output before and after
// them.
func TestEndsInARowWaitAsOnePiece(t *testing.T) {
	p := &Printer{filled: make(chan struct{}, 1)} // its queue is not read
	const ranks = 1000
	var all []int
	for rank := range ranks {
		p.enqueueEnd(rank)
		all = append(all, rank)
	}
	data := &wire.Data{Rank: ranks, Bytes: []byte("x")}
	p.enqueue(queueItem{rank: ranks, data: data})
	p.enqueueEnd(ranks)
	p.enqueueEnd(ranks + 1)
	want := []queueItem{{endedRanks: all}, {rank: ranks, data: data}, {endedRanks: []int{ranks, ranks + 1}}}
	if !reflect.DeepEqual(p.queue, want) {
		t.Errorf("%d pieces wait: %+v", len(p.queue), p.queue)
	}
}

// With labels, output is written in parts, and not collected completely first (IO-11).
func TestLabelsAreWrittenPartByPart(t *testing.T) {
	const label, parts = "2026-11-23 12:00:00.000 ", 4
	var w longest
	p := &Printer{dueSinks: make(map[*sink]time.Time), terminal: &sink{w: &w, mixer: newLineAssembler(func(int) []byte { return []byte(label) })}}
	p.addOutput(0, bytes.Repeat([]byte("\n"), parts*maxMixed))
	p.writeSink(p.terminal)
	if each := (len(label) + 1) * maxMixed; w.all != parts*each || w.most != each {
		t.Errorf("%d bytes at once, of %d; want %d of %d", w.most, w.all, each, parts*each)
	}
}

// A longest counts the bytes written, and records the longest write.
type longest struct{ all, most int }

func (w *longest) Write(b []byte) (int, error) {
	w.all, w.most = w.all+len(b), max(w.most, len(b))
	return len(b), nil
}
