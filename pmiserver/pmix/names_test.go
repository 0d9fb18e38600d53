package pmix

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A nameTable is a table of names in memory.
type nameTable struct {
	mu        sync.Mutex // guards the fields below
	names     map[string]Name
	published chan struct{} // closed when a name is published
}

func newNameTable() *nameTable {
	return &nameTable{names: make(map[string]Name), published: make(chan struct{})}
}

func (b *nameTable) Publish(_ context.Context, service string, n Name) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.names[service]; there {
		return false, nil
	}
	b.names[service] = n
	close(b.published)
	b.published = make(chan struct{})
	return true, nil
}

func (b *nameTable) Lookup(_ context.Context, service string) (Name, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, found := b.take(service)
	return n, found, nil
}

// take looks a name up, and removes it if it is Once. The caller holds b.mu.
func (b *nameTable) take(service string) (n Name, found bool) {
	if n, found = b.names[service]; n.Once {
		delete(b.names, service)
	}
	return n, found
}

func (b *nameTable) Await(ctx context.Context, service string) (Name, error) {
	for {
		b.mu.Lock()
		n, found := b.take(service)
		published := b.published
		b.mu.Unlock()
		if found {
			return n, nil
		}
		select {
		case <-published:
		case <-ctx.Done():
			return Name{}, context.Cause(ctx)
		}
	}
}

func (b *nameTable) Unpublish(_ context.Context, service string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names, service)
	return nil
}

func publishBody(infos ...bfrops.Info) []byte {
	return bfrops.AppendInfos(bfrops.AppendUint32(body(6), testUID), infos)
}

func lookupBody(keys []string, infos ...bfrops.Info) []byte {
	return bfrops.AppendInfos(bfrops.AppendKeys(bfrops.AppendUint32(body(7), testUID), keys), infos)
}

// foundIn decodes the reply to a look-up: the values, and the ranks that published them.
func foundIn(answer []byte) (texts []string, by []bfrops.Rank) {
	r := bfrops.NewReader(answer)
	if r.Status() != 0 {
		return nil, nil
	}
	for _, d := range r.Data() {
		text, _ := d.Value.Text()
		texts, by = append(texts, text), append(by, d.Publisher.Rank)
	}
	return texts, by
}

// Published names are found by other ranks, at once or when they are published, and until the timeout.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 2, 2)
		one, two := initialized(t, s, 0), initialized(t, s, 1)
		if status := one.status(publishBody()); status != message.NotSupported {
			t.Errorf("without a table: %v", status)
		}
		board := newNameTable()
		s.Names = board
		waits := bfrops.Info{Key: "pmix.wait", Value: bfrops.FlagOf(true)}
		short := bfrops.Info{Key: "pmix.timeout", Value: bfrops.Uint32Of(3)}
		if status := two.status(lookupBody([]string{"a"})); status != message.NotFound {
			t.Errorf("an unknown name: %v", status)
		}
		began := time.Now()
		if status := two.status(lookupBody([]string{"a"}, waits, short)); status != message.TimedOut || time.Since(began) != 3*time.Second {
			t.Errorf("a name that never comes: %v after %v", status, time.Since(began))
		}
		tag := two.send(lookupBody([]string{"b", "a"}, waits))
		for _, name := range []string{"a", "b"} {
			synctest.Wait() // it waits, and for both
			if status := one.status(publishBody(bfrops.Info{Key: name, Value: bfrops.TextOf("value of " + name)}, bfrops.Info{Key: "pmix.range", Value: bfrops.Uint32Of(4)})); status != message.Success {
				t.Fatalf("publish %s: %v", name, status)
			}
		}
		answered, answer := two.receive()
		texts, by := foundIn(answer)
		if answered != tag || len(texts) != 2 || texts[0] != "value of b" || texts[1] != "value of a" || by[0] != 0 || by[1] != 0 {
			t.Errorf("found %q of %v, by %d", texts, by, answered)
		}
		if status := one.status(publishBody(bfrops.Info{Key: "a", Value: bfrops.TextOf("other")})); status != message.Duplicate {
			t.Errorf("published twice: %v", status)
		}
		board.Publish(t.Context(), "port", Name{Port: "of PMI"})
		if texts, by := foundIn(one.request(lookupBody([]string{"none", "port"}))); len(texts) != 1 || texts[0] != "of PMI" || by[0] != bfrops.NoRank {
			t.Errorf("found %q of %v", texts, by)
		}
		two.send(lookupBody([]string{"never"}, waits))
		synctest.Wait()
		s.Freeze() // nobody waits any more
		if _, answer := two.receive(); statusOf(answer) != message.Failed {
			t.Errorf("at the end: %v", statusOf(answer))
		}
		s.Close()
	})
}

// The limit of a rank's name requests covers all its clients, and counts the names in each request.
func TestNameRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 1, 1)
		s.Names = newNameTable()
		one, two := initialized(t, s, 0), initialized(t, s, 0)
		waits := bfrops.Info{Key: "pmix.wait", Value: bfrops.FlagOf(true)}
		for range maxNameRequests / 4 {
			one.send(lookupBody([]string{"x", "y", "z"}, waits))
			two.send(lookupBody([]string{"x"}, waits))
		}
		synctest.Wait()
		for i, c := range []*testClient{one, two} {
			if status := c.status(lookupBody([]string{"x"}, waits)); status != message.NoMemory {
				t.Errorf("one more by client %d: %v", i, status)
			}
		}
		s.Close()
	})
}

// The collectives of a group are removed with it, even if its ranks still wait in them.
func TestCollectivesOfRemovedGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 2, 2)
		one, two := initialized(t, s, 0), initialized(t, s, 1)
		one.status(fenceBody(procs(testSpace, 0), false))
		two.status(fenceBody(procs(testSpace, 1), false))
		one.send(fenceBody(all, false))
		synctest.Wait()
		s.RemoveGroup("k")
		s.mu.Lock()
		if len(s.collectives) > 0 || s.activeCollectives > 0 {
			t.Errorf("%d meetings are kept, and somebody waits in %d", len(s.collectives), s.activeCollectives)
		}
		s.mu.Unlock()
		s.Close()
	})
}

// After a connect, all members know each other's job info. A fence of the same ranks is another
// collective.
func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 2, 2)
		one, two := initialized(t, s, 0), initialized(t, s, 1)
		for _, command := range []uint8{10, 11} {
			list := bfrops.AppendInfos(bfrops.AppendProcs(body(command), all), nil)
			one.send(list)
			two.send(fenceBody(all, false))
			synctest.Wait() // neither is answered
			tag := two.send(list)
			if answered, answer := one.receive(); answered != one.tag || statusOf(answer) != message.Success {
				t.Errorf("command %d: %v to %d", command, statusOf(answer), answered)
			}
			if answered, answer := two.receive(); answered != tag || statusOf(answer) != message.Success {
				t.Errorf("command %d: %v to %d", command, statusOf(answer), answered)
			}
			one.status(fenceBody(all, false))
			two.receive()
		}
		s.Close()
	})
}

// A name that only the first look-up finds is published again if the client does not get it: its timeout
// is over while it waits for other names, or it has ended (PMIX-41).
func TestNamesThatNobodyGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTestServer(t, 2, 2)
		board := newNameTable()
		s.Names = board
		one, two := initialized(t, s, 0), initialized(t, s, 1)
		once := bfrops.Info{Key: "pmix.persist", Value: bfrops.Uint32Of(uint32(message.FirstRead))}
		waits, short := bfrops.Info{Key: "pmix.wait", Value: bfrops.FlagOf(true)}, bfrops.Info{Key: "pmix.timeout", Value: bfrops.Uint32Of(3)}
		one.status(publishBody(bfrops.Info{Key: "a", Value: bfrops.TextOf("value")}, once))
		if status := two.status(lookupBody([]string{"a", "never"}, waits, short)); status != message.TimedOut {
			t.Errorf("with one that never comes: %v", status)
		}
		synctest.Wait()
		two.send(lookupBody([]string{"a", "later"}, waits))
		synctest.Wait()
		s.RankExited("k", 1)
		one.status(publishBody(bfrops.Info{Key: "later", Value: bfrops.TextOf("value")}))
		two.receive()
		if texts, _ := foundIn(one.request(lookupBody([]string{"a"}))); len(texts) != 1 {
			t.Errorf("found %q", texts)
		}
		if texts, _ := foundIn(one.request(lookupBody([]string{"a"}))); len(texts) != 0 {
			t.Errorf("found %q again", texts)
		}
		s.Close()
	})
}

// A name of another job may have any bytes. A rank receives only what a server has encoded for this name.
func TestHostileNameValue(t *testing.T) {
	good := appendDatum(nil, bfrops.Datum{Publisher: bfrops.Proc{Namespace: "n", Rank: 1}, Pair: bfrops.Pair{Key: "svc", Value: bfrops.TextOf("p")}})
	if d, err := (Name{Value: good}).toDatum("svc", "n"); err != nil || d.Key != "svc" {
		t.Errorf("%+v, %v", d, err)
	}
	for what, value := range map[string][]byte{"cut": good[:len(good)-1], "more": append(good[:len(good):len(good)], 0), "junk": []byte("junk")} {
		if d, err := (Name{Value: value}).toDatum("svc", "n"); err == nil {
			t.Errorf("%s: %+v", what, d)
		}
	}
	if d, err := (Name{Value: good}).toDatum("other", "n"); err == nil {
		t.Errorf("another key: %+v", d)
	}
}
