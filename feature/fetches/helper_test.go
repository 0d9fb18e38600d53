//go:build linux

package fetches

import (
	"testing"

	"remshell/pmiserver/pmix"
	"remshell/pmiserver/pmix/message"
	"remshell/wire"
)

// A limited number of fetches is in flight; the others wait in order. At the end all get an answer.
func TestFetchesAreFewAndInOrder(t *testing.T) {
	var sent []*Fetch
	f := newFetcher(func(m wire.Message) error { sent = append(sent, m.(*Fetch)); return nil }, func() {})
	answers := make(map[message.Status]int)
	for rank := range 2*maxUnanswered + 3 {
		f.Fetch(pmix.FetchRequest{Group: "k", Rank: rank}, func(_ []byte, s message.Status) { answers[s]++ })
	}
	if len(sent) != maxUnanswered {
		t.Fatalf("%d are under way, and %d may be", len(sent), maxUnanswered)
	}
	for id := range maxUnanswered {
		f.Deliver(id+1, &Fetched{ID: id + 1, Found: id > 0, Err: map[bool]string{true: "much"}[id == 1]})
	}
	for i, m := range sent {
		if m.ID != i+1 || m.Rank != i {
			t.Fatalf("fetch %d is %+v", i, m)
		}
	}
	f.Deliver(1, &Fetched{ID: 1}) // twice: nobody waits any more
	f.Fail()
	f.Fetch(pmix.FetchRequest{}, func(_ []byte, s message.Status) { answers[s]++ })
	want := map[message.Status]int{message.NotFound: 1, message.NoMemory: 1, message.Success: maxUnanswered - 2, message.Failed: maxUnanswered + 4}
	for status, n := range want {
		if answers[status] != n {
			t.Errorf("%d answers are %v, want %d", answers[status], status, n)
		}
	}
}

// Large replies do not pile up: a batch must be written before the next one is sent.
func TestRepliesToFetchesAreSentInBatches(t *testing.T) {
	const asked = 10
	data := make([]byte, flushBytes)
	unwritten, most, done := 0, 0, make(chan struct{})
	sent := 0
	f := newFetcher(func(m wire.Message) error {
		unwritten += len(m.(*Fetched).Data)
		most = max(most, unwritten)
		if sent++; sent == asked {
			close(done)
		}
		return nil
	}, func() { unwritten = 0 })
	for id := range asked {
		f.serveFetch(&Fetch{ID: id}, func(_ pmix.FetchRequest, answer func([]byte, message.Status)) { answer(data, message.Success) })
	}
	<-done
	if most > 2*flushBytes {
		t.Errorf("%d bytes wait to be written", most)
	}
}
